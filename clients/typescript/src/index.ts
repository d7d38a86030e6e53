export { handBack, register, subscribe } from "./browser.ts";
export { ClarionClient, type NewRule, type NewSubscription, type Subscription } from "./client.ts";
export { type Bearer, bearerByLogin, type Login } from "./login.ts";
export type { components } from "./openapi.ts";
export { ClarionError } from "./problem.ts";
export * from "./push.ts";
