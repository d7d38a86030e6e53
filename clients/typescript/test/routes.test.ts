import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { OPEN, ROUTES } from "../src/routes.ts";

interface Operation {
  operationId: string;
  tags: string[];
  security?: unknown;
}

const { paths } = JSON.parse(readFileSync(new URL("../../../docs/openapi.json", import.meta.url), "utf8")) as {
  paths: Record<string, Record<string, Operation>>;
};
// WalletConnect's wallets have clients of their own.
const operations = Object.entries(paths)
  .flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), ...operation })),
  )
  .filter(({ tags }) => !tags.includes("walletconnect"));

test("each operation of the API is asked for where it is", () => {
  const expected = operations.map(({ operationId, method, path }) => [operationId, [method, path]]);
  assert.deepEqual(ROUTES, Object.fromEntries(expected));
});

test("only what asks for a bearer token gets one", () => {
  const open = operations.filter(({ security }) => security === undefined);
  assert.deepEqual([...OPEN].sort(), open.map(({ operationId }) => operationId).sort());
});
