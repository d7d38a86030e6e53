// Keeps the browser's device key, with the subscription whose pushes it opens, for the page and its service worker.
const STORE = "device-keys";
const ONLY = 0;

// `{ subscriptionId, keys }`
export function keepDeviceKey(deviceKey) {
  return inStore("readwrite", (store) => store.put(deviceKey, ONLY));
}

// undefined if there is none
export function keptDeviceKey() {
  return inStore("readonly", (store) => store.get(ONLY));
}

async function inStore(mode, request) {
  const opening = indexedDB.open("clarion");
  opening.onupgradeneeded = () => opening.result.createObjectStore(STORE);
  const database = await resultOf(opening);
  try {
    return await resultOf(request(database.transaction(STORE, mode).objectStore(STORE)));
  } finally {
    database.close();
  }
}

function resultOf(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
