// Shows each push of Clarion as a notification, and opens the page when it is clicked.
//
// The payload is JSON: `title`, and `statement` with its bytes in lower-case hex: `topic`, `sender_pubkey`, and `data`,
// which is null if the statement was too large for a push; then `hash` says which statement to fetch. A verification has
// `clarion` instead, whose code the page hands back to the API.
"use strict";

// Browsers revoke the permission of a site that shows nothing for a push.
const UNREADABLE = { title: "New message", body: "Open the app to read it.", data: null };
const HEX = /^(?:[0-9a-f]{2})*$/;

self.addEventListener("install", () => self.skipWaiting());

self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("push", (event) => {
  const { title, ...options } = notificationOf(event.data) ?? UNREADABLE;
  event.waitUntil(self.registration.showNotification(title, options));
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(open(event.notification.data));
});

// Null for what is no payload of Clarion's.
function notificationOf(message) {
  const payload = parseJson(message);
  if (isVerification(payload?.clarion)) {
    return { title: "Confirm this browser", body: "Click to receive messages here.", data: payload.clarion };
  }
  if (!isPayload(payload)) {
    return null;
  }
  const { title, statement } = payload;
  return { title, body: bodyOf(statement.data), data: statement, tag: tagOf(statement) };
}

// The same for a push that comes twice, so that the second replaces what the first shows.
function tagOf({ sender_pubkey, topic, data, hash }) {
  return `${sender_pubkey} ${topic} ${data ?? hash}`;
}

function parseJson(message) {
  try {
    return message?.json() ?? null;
  } catch {
    return null;
  }
}

function isPayload(payload) {
  return (
    typeof payload === "object" &&
    payload !== null &&
    typeof payload.title === "string" &&
    payload.title !== "" &&
    isStatement(payload.statement)
  );
}

function isVerification(own) {
  return own?.purpose === "verification" && typeof own.subscription_id === "string" && typeof own.code === "string";
}

function isStatement(statement) {
  return (
    typeof statement === "object" &&
    statement !== null &&
    isHex(statement.topic) &&
    isHex(statement.sender_pubkey) &&
    (statement.data === null ? isHex(statement.hash) : isHex(statement.data))
  );
}

function isHex(value) {
  return typeof value === "string" && HEX.test(value);
}

// An app would decrypt the data here, and fetch what the push could not carry.
function bodyOf(data) {
  if (data === null) {
    return "A message too large for a push";
  }
  const bytes = Uint8Array.from(data.match(/../g) ?? [], (digits) => parseInt(digits, 16));
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

async function open(content) {
  const pages = await self.clients.matchAll({ type: "window" });
  if (pages.length === 0) {
    return self.clients.openWindow(self.registration.scope);
  }
  pages[0].postMessage(content);
  return pages[0].focus();
}
