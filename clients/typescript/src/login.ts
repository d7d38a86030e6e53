import { ClarionClient } from "./client.ts";

/** Gives the bearer token for a request. */
export type Bearer = () => Promise<string>;

export interface Login {
  /** The host name that the client connects to. */
  domain: string;
  /** The Sr25519 public key: 64 hex digits, lower case. */
  clientId: string;
  /** The key's signature, 64 bytes, in Substrate's signing context. */
  sign: (message: Uint8Array) => Promise<Uint8Array> | Uint8Array;
}

const RENEWED_BEFORE_S = 60;

/** A bearer that signs in on its first use, and again a minute before its token expires. */
export function bearerByLogin(url: string, login: Login): Bearer {
  const client = new ClarionClient(url);
  let token = "";
  let renewAt = Number.NEGATIVE_INFINITY;
  return async () => {
    if (Date.now() >= renewAt) {
      const signedIn = await signIn(client, login);
      token = signedIn.token;
      renewAt = Date.now() + (signedIn.expires_in - RENEWED_BEFORE_S) * 1000;
    }
    return token;
  };
}

async function signIn(client: ClarionClient, { domain, clientId, sign }: Login) {
  const { challenge } = await client.askForChallenge(clientId);
  const lines = ["clarion login v1", `domain: ${domain}`, `client: ${clientId}`, `challenge: ${challenge}`];
  const message = new TextEncoder().encode(`<Bytes>${lines.join("\n")}</Bytes>`);
  return client.signIn({ client_id: clientId, challenge, signature: hex(await sign(message)) });
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
