// Shows each push of Clarion as a notification, sealed ones too, and opens the page when it is clicked. A module, or to
// be bundled: what it imports of the client for web apps lies in `clarion-client`, beside it, or in the package.
import { bytesOf, readPush, tagOf } from "./clarion-client/push.js";
import { openPush } from "./clarion-client/sealed.js";
import { keptDeviceKey } from "./device-key.js";

// Browsers revoke the permission of a site that shows nothing for a push.
const UNREADABLE = { title: "New message", body: "Open the app to read it.", data: null };

self.addEventListener("install", () => self.skipWaiting());

self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("push", (event) => event.waitUntil(receive(readPush(event.data))));

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(open(event.notification.data));
});

async function receive(received) {
  const push = received?.kind === "sealed" ? await unsealed(received) : received;
  const { title, ...options } = notificationOf(push);
  await Promise.all([self.registration.showNotification(title, options), passOn(push)]);
}

// As it is if it can't be opened: it was sealed for another key.
async function unsealed(push) {
  const deviceKey = await keptDeviceKey();
  try {
    return await openPush(push, deviceKey.keys, deviceKey.subscriptionId);
  } catch {
    return push;
  }
}

function notificationOf(push) {
  switch (push?.kind) {
    case "statement":
      return {
        title: push.title,
        body: bodyOf(push.statement.data),
        data: push.statement,
        tag: tagOf(push.statement),
      };
    case "verification":
      return { title: "Confirm this browser", body: "Click to receive messages here.", data: push.verification };
    case "sealed":
      return { ...UNREADABLE, title: push.title ?? UNREADABLE.title };
    default:
      return UNREADABLE;
  }
}

// An app would decrypt the data here, and fetch what the push could not carry.
function bodyOf(data) {
  if (data === null) {
    return "A message too large for a push";
  }
  const bytes = bytesOf(data);
  return readable(bytes) ?? `An encrypted message of ${bytes.length} bytes`;
}

function readable(bytes) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return text === "" || /\p{Cc}/u.test(text) ? null : text;
  } catch {
    return null;
  }
}

// An open page hands the code back by itself.
async function passOn(push) {
  if (push?.kind === "verification") {
    const [page] = await self.clients.matchAll({ type: "window" });
    page?.postMessage(push.verification);
  }
}

async function open(content) {
  const [page] = await self.clients.matchAll({ type: "window" });
  if (!page) {
    return self.clients.openWindow(self.registration.scope);
  }
  page.postMessage(content);
  return page.focus();
}
