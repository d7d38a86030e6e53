// Registers the service worker, subscribes, and hands the subscription to Clarion's API, whose codes it hands back.
import { ClarionClient, handBack, register, subscribe } from "./clarion-client/index.js";
import { newDeviceKey, publicKeyOf } from "./clarion-client/sealed.js";
import { keepDeviceKey, keptDeviceKey } from "./device-key.js";
import { replacePushService } from "./stand-in.js";

const parameters = new URLSearchParams(location.search);
const applicationServerKey = parameters.get("applicationServerKey");
const api = parameters.get("api");
const standIn = parameters.has("standIn");
const clarion = api && new ClarionClient(api, async () => document.querySelector("#bearer").value);
const status = document.querySelector("#status");
const button = document.querySelector("#subscribe");

async function start() {
  if (!("serviceWorker" in navigator && "PushManager" in window)) {
    throw new Error("this browser has no push messages");
  }
  if (standIn) {
    replacePushService();
  }
  await navigator.serviceWorker.register(standIn ? "stand-in-worker.js" : "service-worker.js", { type: "module" });
  navigator.serviceWorker.addEventListener("message", ({ data }) => report(() => receive(data)));
  const { pushManager } = await navigator.serviceWorker.ready;
  showJson("#subscription", await pushManager.getSubscription());
  button.addEventListener("click", () => report(() => subscribeHere(pushManager)));
  button.disabled = applicationServerKey === null;
  return "Ready.";
}

async function subscribeHere(pushManager) {
  if ((await Notification.requestPermission()) !== "granted") {
    throw new Error("notifications are not allowed");
  }
  const subscription = await subscribe(pushManager, applicationServerKey);
  showJson("#subscription", subscription);
  if (!clarion) {
    return "Subscribed.";
  }
  const registered = await register(clarion, subscription);
  if (parameters.has("seal")) {
    await seal(registered.subscription_id);
  }
  return stateOf(registered);
}

// From then on the push service reads no push, nor does anybody but this browser.
async function seal(subscriptionId) {
  const keys = (await keptDeviceKey())?.keys ?? (await newDeviceKey());
  await keepDeviceKey({ subscriptionId, keys });
  await clarion.changeSubscription(subscriptionId, { device_key: await publicKeyOf(keys) });
}

// What the service worker posts: a verification, or what was clicked.
async function receive(content) {
  showJson("#opened", content);
  const proven = clarion && (await handBack(clarion, content));
  return proven ? stateOf(proven) : "Opened.";
}

function stateOf({ status, subscription_id }) {
  return `Subscription ${subscription_id} is ${status}.`;
}

function showJson(selector, value) {
  document.querySelector(selector).textContent = value === null ? "" : JSON.stringify(value, null, 2);
}

async function report(action) {
  status.textContent = "Working…";
  try {
    status.textContent = await action();
  } catch (error) {
    status.textContent = `${error.name}: ${error.message}`;
  }
}

report(start);
