/** Finds the runs that earlier requests with the same idempotency key have created. */
import { SchemaMismatch, ServiceError } from "../errors.ts";
import type { RunRow, Scope, Storage } from "../storage/mod.ts";
import type { RunCreate, RunOrigin } from "./request.ts";

/** A new run, or the run that an earlier request with the same idempotency key created (`repeated`). */
export interface NewOrRepeatedRun {
  readonly run: RunRow;
  readonly repeated: boolean;
}

/** A request whose values were refused. */
interface RefusedRequest {
  readonly request: RunCreate;
  readonly origin: RunOrigin;
}

/**
 * Returns the run of an earlier request with the same idempotency key. Throws `idempotency_key_reused` if the request had
 * another body, and `idempotent_run_gone` without a run.
 */
export function toRepeatedRun(run: RunRow | null, same_body: boolean): NewOrRepeatedRun {
  if (!same_body) throw new ServiceError("idempotency_key_reused", "Idempotency-Key: was used for another request");
  if (!run) throw new ServiceError("idempotent_run_gone", "The run that was made with this Idempotency-Key is gone");
  return { run, repeated: true };
}

/**
 * Returns the run of the first request with the idempotency key of a request whose values or resume value were refused: since
 * then its interrupt was answered, or the schemas of the agent have changed. Rethrows `refusal` for a new key and for other
 * errors. Throws what `toRepeatedRun` throws.
 */
export async function requireFirstRunByKey(
  storage: Storage,
  deploymentScope: Scope,
  { request: { command }, origin: { idempotency } }: RefusedRequest,
  refusal: unknown,
): Promise<NewOrRepeatedRun> {
  const isRepeatable =
    refusal instanceof SchemaMismatch || (refusal instanceof ServiceError && command?.resume !== undefined);
  const first = isRepeatable && idempotency ? await storage.findFirstRunByKey(deploymentScope, idempotency) : null;
  if (!first) throw refusal;
  return toRepeatedRun(first.run, first.same_body);
}

/**
 * Returns the runs of the first request with the idempotency key of a batch whose values were refused by a schema. Rethrows
 * `refusal` for a new key and for other errors. Throws `idempotent_run_gone` if a run of the batch has none, and what
 * `toRepeatedRun` throws.
 */
export async function requireFirstBatchByKey(
  storage: Storage,
  deploymentScope: Scope,
  requests: readonly RefusedRequest[],
  refusal: unknown,
): Promise<readonly NewOrRepeatedRun[]> {
  if (!(refusal instanceof SchemaMismatch)) throw refusal;
  const firstRuns = await Promise.all(
    requests.map(({ origin: { idempotency } }) =>
      idempotency ? storage.findFirstRunByKey(deploymentScope, idempotency) : null,
    ),
  );
  if (firstRuns.every((first) => first === null)) throw refusal;
  // A key that not all runs of the batch have was used for a shorter batch.
  return firstRuns.map((first) => toRepeatedRun(first?.run ?? null, first?.same_body ?? true));
}
