/** What a service worker makes of Clarion's pushes; docs/receiving.md describes them. */
import type { components } from "./openapi.ts";

type Schemas = components["schemas"];
/** All bytes are lower-case hex. `data` is null if it did not fit into the push; then `hash` says what to fetch. */
export type Statement = Schemas["StatementWebPush"]["statement"];
export type Verification = Schemas["ClarionVerification"];

export type Push =
  | { kind: "statement"; title: string; statement: Statement }
  | { kind: "verification"; verification: Verification }
  /** For the holder of the `device_key`: once opened, `readPayload` reads it together with the title. */
  | { kind: "sealed"; title: string | null; sealed: string };

/** Part of a service worker's `PushMessageData`. */
export interface PushData {
  json(): unknown;
}

type Members = Readonly<Record<string, unknown>>;

const HEX = /^(?:[0-9a-f]{2})*$/;

/** The `data` of a push event; null for what is no payload of Clarion's. */
export function readPush(data: PushData | null): Push | null {
  try {
    return readPayload(data?.json());
  } catch {
    return null;
  }
}

export function readPayload(payload: unknown): Push | null {
  const { title, statement, clarion } = members(payload);
  if (isVerification(clarion)) {
    return { kind: "verification", verification: clarion };
  }
  if (isSealed(clarion)) {
    return { kind: "sealed", title: isTitle(title) ? title : null, sealed: clarion.sealed };
  }
  return isTitle(title) && isStatement(statement) ? { kind: "statement", title, statement } : null;
}

export function isVerification(value: unknown): value is Verification {
  const { purpose, subscription_id, code } = members(value);
  return purpose === "verification" && typeof subscription_id === "string" && typeof code === "string";
}

/** A notification's `tag`: the same for a push that comes twice, so that the second replaces what the first shows. */
export function tagOf({ sender_pubkey, topic, ...statement }: Statement): string {
  return `${sender_pubkey} ${topic} ${statement.data ?? statement.hash}`;
}

export function bytesOf(hex: string): Uint8Array {
  return Uint8Array.from(hex.match(/../g) ?? [], (digits) => Number.parseInt(digits, 16));
}

function members(value: unknown): Members {
  return typeof value === "object" && value !== null ? (value as Members) : {};
}

function isSealed(value: unknown): value is Schemas["Sealed"] {
  const { v, sealed } = members(value);
  return v === 1 && typeof sealed === "string";
}

function isTitle(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

function isStatement(value: unknown): value is Statement {
  const { topic, sender_pubkey, data, hash } = members(value);
  return isHex(topic) && isHex(sender_pubkey) && isHex(data === null ? hash : data);
}

function isHex(value: unknown): value is string {
  return typeof value === "string" && HEX.test(value);
}
