import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { ClarionClient } from "../src/client.ts";
import { ClarionError } from "../src/problem.ts";

const PROBLEM = "application/problem+json";
const BUSY = {
  status: 429,
  headers: { "content-type": PROBLEM, "retry-after": "0" },
  body: problem("too-many-requests"),
};
const FINE = { status: 200, headers: { "content-type": "application/json" }, body: "[]" };

function problem(kind: string): string {
  return JSON.stringify({ type: `urn:clarion:problem:${kind}`, title: "A problem", status: 400 });
}

/** A client of a server that gives these answers, the last one for ever, and how many requests it got. */
async function served(context: TestContext, ...answers: (typeof BUSY | typeof FINE)[]) {
  const got = { requests: 0 };
  const server = createServer((_, response) => {
    const { status, headers, body } = answers[Math.min(got.requests++, answers.length - 1)] ?? FINE;
    response.writeHead(status, headers).end(body);
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  context.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  return { client: new ClarionClient(`http://127.0.0.1:${port}`), got };
}

async function refusal(action: Promise<unknown>): Promise<ClarionError> {
  try {
    await action;
  } catch (error) {
    assert(error instanceof ClarionError);
    return error;
  }
  assert.fail("it was not refused");
}

test("a request that may be repeated is repeated", async (context) => {
  const { client, got } = await served(context, BUSY, { ...BUSY, status: 503 }, FINE);
  assert.deepEqual(await client.listSubscriptions(), []);
  assert.equal(got.requests, 3);
});

test("after the third refusal it is given up", async (context) => {
  const { client, got } = await served(context, BUSY);
  const error = await refusal(client.listSubscriptions());
  assert.deepEqual([error.status, error.kind, error.retryAfter], [429, "too-many-requests", 0]);
  assert.equal(got.requests, 3);
});

test("a wait of more than a minute is the caller's to decide", async (context) => {
  const { client, got } = await served(context, { ...BUSY, headers: { ...BUSY.headers, "retry-after": "61" } });
  assert.equal((await refusal(client.listSubscriptions())).retryAfter, 61);
  assert.equal(got.requests, 1);
});

test("what may have changed something is not repeated", async (context) => {
  const { client, got } = await served(context, { ...BUSY, status: 500 });
  assert.equal((await refusal(client.requestCode("an-id"))).status, 500);
  assert.equal(got.requests, 1);
});

test("an answer that is not the API's has a status and no kind", async (context) => {
  const { client } = await served(context, { status: 502, headers: { "content-type": "text/html" }, body: "<html>" });
  const error = await refusal(client.listSubscriptions());
  assert.deepEqual([error.status, error.kind, error.message], [502, null, "HTTP status 502"]);
});

test("the pages of a list are joined, a subscription that is on both as well", async (context) => {
  const [rule, another] = ["01", "02"].map((topic) => ({ sender_pubkey: "ab".repeat(32), topic: topic.repeat(32) }));
  const page = (subscription: string, ...rules: unknown[]) => ({ subscription_id: subscription, rules });
  const headers = { ...FINE.headers, link: `</v1/subscriptions?cursor=${"A".repeat(118)}>; rel="next"` };
  const { client, got } = await served(
    context,
    { ...FINE, headers, body: JSON.stringify([page("one"), page("two", rule)]) },
    { ...FINE, body: JSON.stringify([page("two", another), page("three")]) },
  );
  assert.deepEqual(await client.listSubscriptions(), [page("one"), page("two", rule, another), page("three")]);
  assert.equal(got.requests, 2);
});
