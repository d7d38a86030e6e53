/** A page's part in Web Push: subscribe, register, prove. */
import { toBase64Url } from "./base64url.ts";
import type { ClarionClient } from "./client.ts";
import { ClarionError } from "./problem.ts";
import { isVerification } from "./push.ts";

/**
 * The browser's subscription for this key: the one it has, or a new one. The page needs the permission to show
 * notifications.
 *
 * @param applicationServerKey the app's, in base64url, as the deployment's operator gives it
 */
export async function subscribe(pushManager: PushManager, applicationServerKey: string): Promise<PushSubscription> {
  const existing = await pushManager.getSubscription();
  // A subscription is bound to the key it was made with: with another, `subscribe` is an InvalidStateError.
  if (existing && keyOf(existing) !== applicationServerKey) {
    await existing.unsubscribe();
  }
  // Browsers refuse anything else: each push has to show a notification.
  return pushManager.subscribe({ userVisibleOnly: true, applicationServerKey });
}

/**
 * Clarion's subscription for this browser, which is asked for at every start. If it is `pending`, a code comes by push,
 * for `handBack`; if none comes within a minute, `requestCode`.
 */
export async function register(client: ClarionClient, subscription: PushSubscription, app?: string) {
  const token = JSON.stringify(subscription);
  try {
    return await client.registerSubscription({ notificationType: "webpush", token, app: app ?? null });
  } catch (error) {
    if (error instanceof ClarionError && error.subscriptionId !== null) {
      return client.getSubscription(error.subscriptionId);
    }
    throw error;
  }
}

/**
 * Proves the token if `message`, which the service worker posted, is a verification; null if it is none, or that of
 * another client's subscription.
 */
export async function handBack(client: ClarionClient, message: unknown) {
  if (!isVerification(message)) {
    return null;
  }
  try {
    return await client.proveToken(message.subscription_id, message.code);
  } catch (error) {
    if (error instanceof ClarionError && error.kind === "no-subscription") {
      return null;
    }
    throw error;
  }
}

function keyOf({ options }: PushSubscription): string {
  return toBase64Url(options.applicationServerKey ?? new ArrayBuffer(0));
}
