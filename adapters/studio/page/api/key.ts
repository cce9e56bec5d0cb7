/** The credential of this browser tab. It stays in the session storage and goes nowhere but into request headers. */
import { signal } from "@preact/signals";

export type Scheme = "x-api-key" | "authorization";
export interface Credential {
  readonly scheme: Scheme;
  readonly value: string;
}

const PLACE = "greenroom.credential";

function stored(): Credential | null {
  try {
    return JSON.parse(sessionStorage.getItem(PLACE) ?? "null") as Credential | null;
  } catch {
    return null;
  }
}

export const credential = signal<Credential | null>(stored());
/** Set while the server refuses calls without a good key. `wrong`: the key that was sent is not accepted. */
export const refusal = signal<{ readonly wrong: boolean } | null>(null);

let waiting: (() => void)[] = [];

export function takeCredential(value: Credential | null): void {
  credential.value = value;
  if (value) sessionStorage.setItem(PLACE, JSON.stringify(value));
  else sessionStorage.removeItem(PLACE);
  refusal.value = null;
  const waiters = waiting;
  waiting = [];
  for (const go of waiters) go();
}

/** Resolves when the person has given another key than the refused one. */
export async function anotherCredential(refused: Credential | null): Promise<void> {
  if (credential.value !== refused) return;
  refusal.value ??= { wrong: refused !== null };
  await new Promise<void>((resolve) => waiting.push(resolve));
}
