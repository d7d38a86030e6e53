import type { components } from "./openapi.ts";

type Details = components["schemas"]["ProblemDetails"];

const PREFIX = "urn:clarion:problem:";

/** An answer other than success: docs/errors.md lists the kinds, and what to do about each. */
export class ClarionError extends Error {
  override readonly name = "ClarionError";
  readonly status: number;
  /** The last part of the problem's `type`; null if it was not the API that answered, but what stands before it. */
  readonly kind: string | null;
  readonly detail: string | null;
  readonly errors: NonNullable<Details["errors"]>;
  /** In seconds. */
  readonly retryAfter: number | null;
  /** Of `token-taken`: your own subscription with this token. */
  readonly subscriptionId: string | null;

  constructor(status: number, problem: Partial<Details>, retryAfter: number | null) {
    super(problem.title ?? `HTTP status ${status}`);
    this.status = status;
    this.kind = problem.type?.startsWith(PREFIX) ? problem.type.slice(PREFIX.length) : null;
    this.detail = problem.detail ?? null;
    this.errors = problem.errors ?? [];
    this.retryAfter = retryAfter;
    this.subscriptionId = typeof problem["subscription_id"] === "string" ? problem["subscription_id"] : null;
  }

  static async of(response: Response): Promise<ClarionError> {
    const isProblem = response.headers.get("content-type")?.startsWith("application/problem+json");
    const problem = isProblem ? ((await response.json()) as Details) : {};
    const retryAfter = Number.parseInt(response.headers.get("retry-after") ?? "", 10);
    return new ClarionError(response.status, problem, Number.isNaN(retryAfter) ? null : retryAfter);
  }

  /** Nothing was changed, and the answer says when to repeat the request. */
  get isTemporary(): boolean {
    return (this.status === 429 || this.status === 503) && this.retryAfter !== null;
  }
}
