/** Where each operation of docs/openapi.json is, and what it takes and answers. */
import type { operations } from "./openapi.ts";

/** WalletConnect's wallets have clients of their own. */
type OfWallets = "listDevices" | "registerDevice" | "removeDevices" | "replaceTopics" | "addTopics" | "removeTopics";

export type OperationId = Exclude<keyof operations, OfWallets>;

type Json<Message> = Message extends { content: { "application/json": infer Content } } ? Content : undefined;
type Success<Responses> = Responses[keyof Responses & (200 | 201 | 202 | 204)];

export type Body<Id extends OperationId> = Json<operations[Id]["requestBody"]>;
export type Answer<Id extends OperationId> = Json<Success<operations[Id]["responses"]>>;

export const ROUTES: Readonly<Record<OperationId, readonly [method: string, path: string]>> = {
  askForChallenge: ["POST", "/v1/auth/challenges"],
  signIn: ["POST", "/v1/auth/tokens"],
  registerSubscription: ["POST", "/v1/subscriptions"],
  listSubscriptions: ["GET", "/v1/subscriptions"],
  removeSubscriptions: ["DELETE", "/v1/subscriptions"],
  getSubscription: ["GET", "/v1/subscriptions/{subscription_id}"],
  changeSubscription: ["PATCH", "/v1/subscriptions/{subscription_id}"],
  replaceToken: ["PUT", "/v1/subscriptions/{subscription_id}/token"],
  proveToken: ["POST", "/v1/subscriptions/{subscription_id}/proof"],
  requestCode: ["POST", "/v1/subscriptions/{subscription_id}/proof/request"],
  listDeliveries: ["GET", "/v1/subscriptions/{subscription_id}/deliveries"],
  replaceRules: ["PUT", "/v1/subscriptions/rules"],
  addRules: ["POST", "/v1/subscriptions/rules"],
  removeRules: ["DELETE", "/v1/subscriptions/rules"],
  pushDirectly: ["POST", "/v1/notify"],
};

/** These need no bearer token: they are how to get one. */
export const OPEN: ReadonlySet<OperationId> = new Set<OperationId>(["askForChallenge", "signIn"]);
