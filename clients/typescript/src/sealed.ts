/** Sealed pushes: a browser's device key, and what it opens. docs/privacy.md has the format. */
import { Chacha20Poly1305 } from "@hpke/chacha20poly1305";
import { CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from "@hpke/core";
import { fromBase64Url, toBase64Url } from "./base64url.ts";
import { type Push, readPayload } from "./push.ts";

const SUITE = new CipherSuite({
  kem: new DhkemX25519HkdfSha256(),
  kdf: new HkdfSha256(),
  aead: new Chacha20Poly1305(),
});
const ENCAPSULATED_KEY_BYTES = 32;

/** IndexedDB can keep it, and nothing can read its private half. */
export async function newDeviceKey(): Promise<CryptoKeyPair> {
  return (await crypto.subtle.generateKey("X25519", false, ["deriveBits"])) as CryptoKeyPair;
}

/** What to register as `device_key`. */
export async function publicKeyOf({ publicKey }: CryptoKeyPair): Promise<string> {
  return toBase64Url(await crypto.subtle.exportKey("raw", publicKey));
}

/** The push as it would have come unsealed. Rejects if it was sealed for another key or subscription. */
export async function openPush(
  { title, sealed }: Push & { kind: "sealed" },
  recipientKey: CryptoKeyPair,
  subscriptionId: string,
): Promise<Push | null> {
  const bytes = fromBase64Url(sealed);
  const enc = bytes.slice(0, ENCAPSULATED_KEY_BYTES);
  const info = new TextEncoder().encode(`clarion push v1${subscriptionId}`);
  const opened = await SUITE.open({ recipientKey, enc, info }, bytes.slice(ENCAPSULATED_KEY_BYTES));
  return readPayload({ title, ...JSON.parse(new TextDecoder().decode(opened)) });
}
