import type { components } from "./openapi.ts";
import type { Bearer } from "./login.ts";
import { ClarionError } from "./problem.ts";
import { type Answer, type Body, OPEN, type OperationId, ROUTES } from "./routes.ts";

type Schemas = components["schemas"];
export type NewRule = Schemas["NewRule"];
export type NewSubscription = Schemas["NewSubscription"];
export type Subscription = Schemas["SubscriptionShape"];

interface Request<Id extends OperationId> {
  subscriptionId?: string;
  cursor?: string | undefined;
  body?: Body<Id>;
}

/** The API itself answers within 29 seconds. */
const TIMEOUT_MS = 30_000;
const ATTEMPTS = 3;
const LONGEST_WAIT_S = 60;

/**
 * A method for each operation of the API, by its name there: docs/api.md says what each does.
 *
 * They throw `ClarionError` for an answer other than success, and what `fetch` throws if there is none. A request that
 * may be repeated after a minute at most is repeated, twice at most.
 */
export class ClarionClient implements Record<OperationId, unknown> {
  readonly #url: string;
  readonly #bearer: Bearer | undefined;

  /** `url` is the deployment's, without a path. Without `bearer` only signing in is possible. */
  constructor(url: string, bearer?: Bearer) {
    this.#url = url;
    this.#bearer = bearer;
  }

  askForChallenge(clientId: string) {
    return this.#call("askForChallenge", { body: { client_id: clientId } });
  }

  signIn(body: Body<"signIn">) {
    return this.#call("signIn", { body });
  }

  registerSubscription(body: NewSubscription) {
    return this.#call("registerSubscription", { body });
  }

  /** All of them with all their rules: the pages of a long list are joined. */
  async listSubscriptions(): Promise<Subscription[]> {
    const subscriptions: Subscription[] = [];
    let cursor: string | undefined;
    do {
      const response = await this.#send("listSubscriptions", { cursor });
      append(subscriptions, (await response.json()) as Subscription[]);
      cursor = nextCursor(response);
    } while (cursor !== undefined);
    return subscriptions;
  }

  removeSubscriptions(subscriptionIds: string[]) {
    return this.#call("removeSubscriptions", { body: { subscription_ids: subscriptionIds } });
  }

  getSubscription(subscriptionId: string) {
    return this.#call("getSubscription", { subscriptionId });
  }

  changeSubscription(subscriptionId: string, body: Body<"changeSubscription">) {
    return this.#call("changeSubscription", { subscriptionId, body });
  }

  replaceToken(subscriptionId: string, body: Body<"replaceToken">) {
    return this.#call("replaceToken", { subscriptionId, body });
  }

  proveToken(subscriptionId: string, code: string) {
    return this.#call("proveToken", { subscriptionId, body: { code } });
  }

  requestCode(subscriptionId: string) {
    return this.#call("requestCode", { subscriptionId });
  }

  listDeliveries(subscriptionId: string) {
    return this.#call("listDeliveries", { subscriptionId });
  }

  replaceRules(subscriptionId: string, rules: NewRule[]) {
    return this.#call("replaceRules", { body: { subscription_id: subscriptionId, rules } });
  }

  addRules(subscriptionId: string, rules: NewRule[]) {
    return this.#call("addRules", { body: { subscription_id: subscriptionId, rules } });
  }

  removeRules(subscriptionId: string, rules: NewRule[]) {
    return this.#call("removeRules", { body: { subscription_id: subscriptionId, rules } });
  }

  pushDirectly(body: Body<"pushDirectly">) {
    return this.#call("pushDirectly", { body });
  }

  async #call<Id extends OperationId>(id: Id, request: Request<Id>): Promise<Answer<Id>> {
    const text = await (await this.#send(id, request)).text();
    return (text === "" ? undefined : JSON.parse(text)) as Answer<Id>;
  }

  async #send<Id extends OperationId>(id: Id, request: Request<Id>): Promise<Response> {
    for (let attempt = 1; ; attempt++) {
      const response = await this.#fetch(id, request);
      if (response.ok) {
        return response;
      }
      const error = await ClarionError.of(response);
      const seconds = error.retryAfter ?? 0;
      if (!error.isTemporary || attempt === ATTEMPTS || seconds > LONGEST_WAIT_S) {
        throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
    }
  }

  async #fetch<Id extends OperationId>(id: Id, { subscriptionId = "", cursor, body }: Request<Id>): Promise<Response> {
    const [method, path] = ROUTES[id];
    const url = new URL(path.replace("{subscription_id}", encodeURIComponent(subscriptionId)), this.#url);
    if (cursor !== undefined) {
      url.searchParams.set("cursor", cursor);
    }
    const headers = new Headers();
    if (this.#bearer && !OPEN.has(id)) {
      headers.set("Authorization", `Bearer ${await this.#bearer()}`);
    }
    if (body !== undefined) {
      headers.set("Content-Type", "application/json");
    }
    const content = body === undefined ? null : JSON.stringify(body);
    return fetch(url, { method, headers, body: content, signal: AbortSignal.timeout(TIMEOUT_MS) });
  }
}

/** A subscription whose rules did not fit on one page goes on with the next. */
function append(subscriptions: Subscription[], page: Subscription[]): void {
  for (const subscription of page) {
    const last = subscriptions.at(-1);
    if (last?.subscription_id === subscription.subscription_id) {
      last.rules = last.rules.concat(subscription.rules);
    } else {
      subscriptions.push(subscription);
    }
  }
}

function nextCursor(response: Response): string | undefined {
  return /[?&]cursor=([\w-]+)>; rel="next"/.exec(response.headers.get("link") ?? "")?.[1];
}
