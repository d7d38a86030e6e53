// Registers the service worker, subscribes, and shows what the app hands to Clarion's API.

const applicationServerKey = new URLSearchParams(location.search).get("applicationServerKey");
const status = document.querySelector("#status");
const button = document.querySelector("#subscribe");

async function start() {
  if (!("serviceWorker" in navigator && "PushManager" in window)) {
    throw new Error("this browser has no push messages");
  }
  await navigator.serviceWorker.register("service-worker.js");
  navigator.serviceWorker.addEventListener("message", ({ data }) => showJson("#opened", data));
  const { pushManager } = await navigator.serviceWorker.ready;
  showJson("#subscription", await pushManager.getSubscription());
  button.addEventListener("click", () => report(() => subscribe(pushManager), "Subscribed."));
  button.disabled = applicationServerKey === null;
}

async function subscribe(pushManager) {
  if ((await Notification.requestPermission()) !== "granted") {
    throw new Error("notifications are not allowed");
  }
  await endSubscriptionOfAnotherKey(pushManager);
  // Browsers refuse anything else: each push has to show a notification.
  showJson("#subscription", await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey }));
}

// A subscription is bound to the key it was made with; with another key, `subscribe` is an InvalidStateError.
async function endSubscriptionOfAnotherKey(pushManager) {
  const subscription = await pushManager.getSubscription();
  if (subscription !== null && base64url(subscription.options.applicationServerKey) !== applicationServerKey) {
    await subscription.unsubscribe();
  }
}

function base64url(buffer) {
  const base64 = btoa(String.fromCharCode(...new Uint8Array(buffer)));
  return base64.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function showJson(selector, value) {
  document.querySelector(selector).textContent = value === null ? "" : JSON.stringify(value, null, 2);
}

async function report(action, success) {
  status.textContent = "Working…";
  try {
    await action();
    status.textContent = success;
  } catch (error) {
    status.textContent = `${error.name}: ${error.message}`;
  }
}

report(start, "Ready.");
