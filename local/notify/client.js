// WalletConnect's Notify client, which wallets have, on request: standard input is JSON, a line each, first
//
//   {"projectId": "…", "relayUrl": "wss://…", "keyserverUrl": "https://…", "port": …}
//
// then calls of the client's methods, {"id": 1, "method": "subscribe", "params": {…}}. Standard output has a line for each
// answer, {"id": 1, "result": …} or {"id": 1, "error": "…"}, and for each event, {"event": "notify_message", "params": {…}}.
// Every host but localhost is looked for on this machine, at `port`.
import https from "node:https";
import { createInterface } from "node:readline";
import { NotifyClient } from "@walletconnect/notify-client";

const EVENTS = [
  "notify_subscription",
  "notify_message",
  "notify_delete",
  "notify_update",
  "notify_subscriptions_changed",
];

class LocalAgent extends https.Agent {
  createConnection(options, ...rest) {
    const mapped = options.host === "localhost" ? {} : { host: "localhost", port: this.options.mappedPort };
    return super.createConnection({ ...options, ...mapped }, ...rest);
  }
}

const write = (line) => console.log(JSON.stringify(line));
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const { port, ...options } = JSON.parse((await lines.next()).value);
https.globalAgent = new LocalAgent({ mappedPort: port });

const client = await NotifyClient.init({ ...options, name: "clarion", logger: "silent" });
for (const event of EVENTS) client.on(event, (given) => write({ event, params: given.params ?? null }));

// Its private key stays here: what is signed is the message alone.
let registration;
const METHODS = {
  async prepareRegistration(params) {
    const { message, registerParams } = await client.prepareRegistration(params);
    registration = registerParams;
    return message;
  },
  register: ({ signature }) => client.register({ registerParams: registration, signature }),
};

async function call({ id, method, params }) {
  try {
    const result = await (METHODS[method]?.(params) ?? client[method](params));
    write({ id, result: result ?? null });
  } catch (error) {
    write({ id, error: error.message ?? String(error) });
  }
}

write({ event: "ready", params: null });
for await (const line of lines) call(JSON.parse(line));
process.exit(0);
