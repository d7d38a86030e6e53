/** Against the API at `CLARION_URL`; at `PHONE_URL` is what has the keys and gets the pushes. */
import assert from "node:assert/strict";
import { createECDH, randomBytes } from "node:crypto";
import { env } from "node:process";
import { test } from "node:test";
import { handBack, register } from "../src/browser.ts";
import { ClarionClient } from "../src/client.ts";
import { bearerByLogin, type Login } from "../src/login.ts";
import { ClarionError } from "../src/problem.ts";
import { readPayload } from "../src/push.ts";

const URL = env["CLARION_URL"] ?? assert.fail("CLARION_URL is not set");
const PHONE = env["PHONE_URL"] ?? assert.fail("PHONE_URL is not set");
const DOMAIN = "push.example.org";
const RULE = { sender_pubkey: "ab".repeat(32), topic: "01".repeat(32) };
const ANOTHER = { ...RULE, topic: "02".repeat(32) };

async function ask(path: string, body: string | null = null): Promise<string> {
  return (await fetch(`${PHONE}${path}`, { method: body ? "POST" : "GET", body })).text();
}

async function newLogin(): Promise<Login> {
  const clientId = await ask("/new-key");
  const sign = async (message: Uint8Array) =>
    Buffer.from(await ask(`/sign/${clientId}`, new TextDecoder().decode(message)), "hex");
  return { domain: DOMAIN, clientId, sign };
}

async function newClient(): Promise<ClarionClient> {
  return new ClarionClient(URL, bearerByLogin(URL, await newLogin()));
}

/** As the browser's `PushManager` makes it. */
function newSubscription(): PushSubscription {
  const keys = {
    p256dh: createECDH("prime256v1").generateKeys("base64url"),
    auth: randomBytes(16).toString("base64url"),
  };
  const endpoint = `https://fcm.googleapis.com/fcm/send/${randomBytes(16).toString("hex")}`;
  return { endpoint, expirationTime: null, keys } as unknown as PushSubscription;
}

async function kindOf(action: Promise<unknown>): Promise<string | null> {
  return action.then(() => assert.fail("it was not refused"), (error: ClarionError) => error.kind);
}

test("a bearer token is good until a minute before it expires", async (context) => {
  context.mock.timers.enable({ apis: ["Date"] });
  const login = await newLogin();
  const sign = context.mock.fn(login.sign);
  const bearer = bearerByLogin(URL, { ...login, sign });
  const first = await bearer();
  context.mock.timers.tick(3540_000 - 1);
  assert.equal(await bearer(), first);
  assert.equal(sign.mock.callCount(), 1);
  context.mock.timers.tick(1);
  await bearer();
  assert.equal(sign.mock.callCount(), 2);
});

test("a browser is registered, and found again when it is registered once more", async () => {
  const [client, browser] = [await newClient(), newSubscription()];
  const registered = await register(client, browser);
  assert.equal(registered.status, "active");
  assert.equal((await register(client, browser)).subscription_id, registered.subscription_id);
});

test("rules are replaced, added, removed and listed", async () => {
  const client = await newClient();
  const { subscription_id: id } = await register(client, newSubscription());
  await client.replaceRules(id, [RULE]);
  assert.deepEqual(await client.addRules(id, [RULE, ANOTHER]), { added: 1, total_rules: 2 });
  assert.deepEqual(await client.removeRules(id, [RULE]), { removed: 1, total_rules: 1 });
  assert.deepEqual((await client.listSubscriptions()).map(({ rules }) => rules), [[ANOTHER]]);
});

test("a browser that another client has registered is the other's until the pushed code is handed back", async () => {
  const [first, second, browser] = [await newClient(), await newClient(), newSubscription()];
  const before = await register(first, browser);
  const pending = await register(second, browser);
  assert.equal(pending.status, "pending");
  assert.equal(await kindOf(second.proveToken(pending.subscription_id, "A".repeat(43))), "wrong-code");
  await ask("/push");
  await second.requestCode(pending.subscription_id);
  const push = readPayload(JSON.parse(await ask("/push")));
  assert(push?.kind === "verification");
  assert.equal(await handBack(second, { data: "c0ffee" }), null);
  assert.equal(await handBack(first, push.verification), null);
  const proven = await handBack(second, push.verification);
  assert.deepEqual(proven, { subscription_id: pending.subscription_id, status: "active" });
  const lost = await first.getSubscription(before.subscription_id);
  assert.deepEqual([lost.status, lost.statusReason], ["invalid", "replaced"]);
});

test("a subscription is changed, gets another token, and is removed", async () => {
  const client = await newClient();
  const { subscription_id: id } = await register(client, newSubscription());
  assert.equal((await client.changeSubscription(id, { environment: "sandbox" })).environment, "sandbox");
  const replaced = await client.replaceToken(id, { token: JSON.stringify(newSubscription()) });
  assert.deepEqual(replaced, { subscription_id: id, status: "active" });
  assert.deepEqual((await client.listDeliveries(id)).deliveries, []);
  assert.equal(await client.removeSubscriptions([id]), undefined);
  assert.deepEqual(await client.listSubscriptions(), []);
});

test("a refusal has the problem's kind and the fields that break a rule", async () => {
  const client = await newClient();
  const error = await register(client, { endpoint: "http://nowhere" } as PushSubscription).catch((error) => error);
  assert(error instanceof ClarionError);
  assert.deepEqual([error.status, error.kind, error.errors[0]?.field], [422, "invalid", "token"]);
  const notification = { deviceToken: "0a1b".repeat(16), pushId: "01".repeat(16), message: "c0ffee" };
  assert.equal(await kindOf(client.pushDirectly(notification)), "direct-push-off");
  assert.equal(await kindOf(new ClarionClient(URL).listSubscriptions()), "unauthenticated");
});
