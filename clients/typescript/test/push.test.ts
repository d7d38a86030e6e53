import assert from "node:assert/strict";
import { test } from "node:test";
import { bytesOf, readPayload, readPush, tagOf } from "../src/push.ts";

const statement = { data: "c0ffee", topic: "01".repeat(32), sender_pubkey: "ab".repeat(32) };
const truncated = { ...statement, data: null, hash: "7e".repeat(32) };
const verification = { purpose: "verification", subscription_id: "an-id", code: "a-code" } as const;

function pushOf(text: string) {
  return readPush({ json: () => JSON.parse(text) });
}

test("a statement is read, with its data or with the hash to fetch it by", () => {
  for (const each of [statement, truncated]) {
    assert.deepEqual(pushOf(JSON.stringify({ title: "App", statement: each })), {
      kind: "statement",
      title: "App",
      statement: each,
    });
  }
});

test("a verification is read", () => {
  assert.deepEqual(pushOf(JSON.stringify({ clarion: verification })), { kind: "verification", verification });
});

test("a sealed push is read with the title that stands beside it, and again once it is opened", () => {
  const sealed = { title: "App", clarion: { v: 1, sealed: "c2VhbGVk" } };
  assert.deepEqual(readPayload(sealed), { kind: "sealed", title: "App", sealed: "c2VhbGVk" });
  assert.equal(readPayload({ clarion: sealed.clarion })?.kind, "sealed");
  assert.equal(readPayload({ title: "App", statement })?.kind, "statement");
});

test("what is no payload of Clarion's is null", () => {
  const payloads = [
    {},
    { title: "App" },
    { title: "", statement },
    { statement },
    { title: "App", statement: { ...statement, data: "0" } },
    { title: "App", statement: { ...statement, data: null } },
    { title: "App", statement: { ...statement, topic: "AB" } },
    { clarion: { purpose: "wake_up", subscription_id: "an-id" } },
    { clarion: { v: 2, sealed: "c2VhbGVk" } },
  ];
  for (const text of ["", "{", "[]", "null", "7", ...payloads.map((each) => JSON.stringify(each))]) {
    assert.equal(pushOf(text), null, text);
  }
  assert.equal(readPush(null), null);
});

test("a push that comes twice has one tag, another has another", () => {
  const others = [truncated, { ...statement, data: "" }, { ...statement, sender_pubkey: statement.topic }];
  const tags = [statement, { ...statement }, ...others].map(tagOf);
  assert.equal(tags[0], tags[1]);
  assert.equal(new Set(tags).size, 4);
});

test("hex is bytes", () => {
  assert.deepEqual(bytesOf(statement.data), Uint8Array.of(0xc0, 0xff, 0xee));
  assert.deepEqual(bytesOf(""), new Uint8Array());
});
