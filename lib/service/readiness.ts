/** Whether the service should get requests: a write to the database succeeds, and its worker is not stuck. */
import { type Environment, withTimeout } from "../environment.ts";
import { isOutage, storageLost } from "../errors.ts";
import type { Storage } from "../storage/mod.ts";

/** Whether requests should be sent here; `detail` says why not. */
export type Readiness = { readonly ok: true } | { readonly ok: false; readonly detail: string };

/** The answer of a probe is used for this time. */
const PROBE_EVERY_MS = 1_000;
const PROBE_WITHIN_MS = 5_000;

/** A probe of the database that is shared by all callers within a second. */
export function createWriteProbe(storage: Storage, environment: Environment): () => Promise<Readiness> {
  let latest: { readonly answer: Promise<Readiness>; until: number; ok: boolean } | null = null;

  async function probe(): Promise<Readiness> {
    try {
      const written = storage.probe(environment.now());
      await withTimeout(environment, PROBE_WITHIN_MS, written, new Error("The storage does not answer"));
      return { ok: true };
    } catch (error) {
      environment.log({ level: "error", message: "the storage takes no writes", error });
      const detail = isOutage(error) ? storageLost().message : (storage.failure?.() ?? "The storage takes no writes");
      return { ok: false, detail };
    }
  }

  return async () => {
    // A write has failed since the last probe.
    if (storage.failure?.() && latest?.ok) latest = null;
    if (!latest || environment.now() >= latest.until) {
      const check = { answer: probe(), until: Number.POSITIVE_INFINITY, ok: false };
      latest = check;
      void check.answer.then(({ ok }) => {
        check.ok = ok;
        check.until = environment.now() + PROBE_EVERY_MS;
      });
    }
    return await latest.answer;
  };
}
