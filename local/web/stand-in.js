// The push service of a browser, by the stand-in that the server of this page passes requests on to. What it delivers
// reaches the service worker as a message: see stand-in-worker.js.
const POLL_MS = 500;

let subscribed;

export function replacePushService() {
  PushManager.prototype.subscribe = ({ applicationServerKey }) => (subscribed ??= subscribe(applicationServerKey));
}

async function subscribe(applicationServerKey) {
  const body = JSON.stringify({ applicationServerKey });
  const subscription = await json("_stand-in/subscriptions", { method: "POST", body });
  deliver(subscription.endpoint);
  return subscription;
}

async function deliver(endpoint) {
  const { active } = await navigator.serviceWorker.ready;
  for (let since = 0; ; await new Promise((resolve) => setTimeout(resolve, POLL_MS))) {
    const received = await json(`_stand-in/received?since=${since}`);
    since = received.next;
    for (const { payload } of received.pushes.filter(({ token, status }) => token === endpoint && status === 201)) {
      active.postMessage(payload);
    }
  }
}

async function json(path, options) {
  return (await fetch(path, options)).json();
}
