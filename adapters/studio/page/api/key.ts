/** The credential of this browser tab. It stays in the session storage and goes nowhere but into request headers. */
import { signal } from "@preact/signals";

export type Scheme = "x-api-key" | "authorization";
export interface Credential {
  readonly scheme: Scheme;
  readonly value: string;
}

const STORAGE_KEY = "greenroom.credential";

/** Returns the credential of this tab; null if there is none or it is damaged. */
function readStoredCredential(): Credential | null {
  try {
    return JSON.parse(sessionStorage.getItem(STORAGE_KEY) ?? "null") as Credential | null;
  } catch {
    return null;
  }
}

export const credential = signal<Credential | null>(readStoredCredential());
/** The reason to show the key prompt; null while no key is needed. `wrong`: the server refused the key that was sent. */
export const refusal = signal<{ readonly wrong: boolean } | null>(null);

/** True after the person closed the key prompt: background reads stop, so that it does not open again. */
export const declined = signal(false);

let waiting: ((hasKey: boolean) => void)[] = [];

/** Closes the prompt and lets the waiting requests go on: with the key, or without one, which counts as declined. */
function resolveWaiters(hasKey: boolean): void {
  refusal.value = null;
  declined.value = !hasKey && waiting.length > 0;
  const waiters = waiting;
  waiting = [];
  for (const go of waiters) go(hasKey);
}

export const declineCredential = (): void => resolveWaiters(false);

/**
 * Stores the credential for this tab, or removes it for null. Closes the key prompt, and the requests that wait for it
 * are sent again.
 */
export function saveCredential(value: Credential | null): void {
  credential.value = value;
  if (value) sessionStorage.setItem(STORAGE_KEY, JSON.stringify(value));
  else sessionStorage.removeItem(STORAGE_KEY);
  resolveWaiters(true);
}

/** Opens the key prompt. Resolves with true once there is another credential than `refused`, with false if the prompt is closed. */
export async function waitForCredential(refused: Credential | null): Promise<boolean> {
  if (credential.value !== refused) return true;
  refusal.value ??= { wrong: refused !== null };
  return await new Promise<boolean>((resolve) => waiting.push(resolve));
}
