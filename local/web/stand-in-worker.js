// The service worker, to which the stand-in's pushes come as messages of the page.
import "./service-worker.js";

self.addEventListener("message", (message) => {
  const push = new PushEvent("push", { data: JSON.stringify(message.data) });
  // That of an event which a script has made throws.
  push.waitUntil = (work) => message.waitUntil(work);
  self.dispatchEvent(push);
});
