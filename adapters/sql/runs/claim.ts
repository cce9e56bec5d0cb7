/** Claims of runs. */
import type { ClaimedRun, ClaimRequest, ClaimRunResult } from "../../../lib/storage/mod.ts";
import { createClaimLogEntry } from "../claim-log.ts";
import { createRowFinder, type Database, type RowFinder, threadLockKey } from "../database.ts";
import { runClaimedStatements } from "../features.ts";
import type { ArgumentsFor } from "../parameters.ts";
import type { Statement } from "../query.ts";
import {
  acquireThreadLock,
  type hasEnded,
  type LeasedRun,
  leaseAfter,
  leaseNext,
  requeueExpired,
  selectCandidates,
} from "../statements/runs-claim.ts";
import { toClaim } from "./row.ts";

/** The number of candidates that a claim reads after other processes claimed those that it chose. */
const MAX_CANDIDATES = 20;
/** The number of reads of a claim while other processes claim its candidates. */
const MAX_TRIES = 10;

type ClaimArguments = Omit<ArgumentsFor<typeof leaseNext.types>, "thread_id">;

/** Returns the arguments of a claim. Lists and limits by graph become JSON text; `log_entry` is empty without a worker. */
function toArguments(deployment: string, request: ClaimRequest): ClaimArguments {
  const { graph_ids, max_attempts = {}, progress_ms = {}, now, token, lease_until, worker } = request;
  return {
    deployment,
    graph_ids: JSON.stringify(graph_ids),
    max_attempts: JSON.stringify(max_attempts),
    progress_ms: JSON.stringify(progress_ms),
    now,
    token,
    lease_until,
    log_entry: createClaimLogEntry(worker, now),
  };
}

/** Statements that claim a run. */
export interface ClaimStatements {
  readonly statements: readonly Statement<unknown>[];
  /** Reads what they returned; null when they claimed no run. */
  toClaimedRun(findRows: RowFinder): ClaimedRun | null;
}

/**
 * Returns the statements that lease a run, lock its thread and start its trace, and a function that finds the claim in their
 * rows; null if they claimed none. `lease` selects and leases the run.
 */
function createClaimStatements(
  args: ClaimArguments,
  request: ClaimRequest,
  lease: Statement<LeasedRun>,
): ClaimStatements {
  const threadLock = acquireThreadLock(args);
  return {
    statements: [lease, threadLock, ...runClaimedStatements(args.deployment, request)],
    toClaimedRun(findRows) {
      const [[run], [thread]] = [findRows(lease), findRows(threadLock)];
      return run && thread ? toClaim(run, thread) : null;
    },
  };
}

/**
 * Returns the statements that claim the next run, for the batch that ends the run of `end`: of any thread, so also a run that
 * was enqueued behind it. Without that end in the database they claim none.
 */
export function createClaimAfterEnd(
  deployment: string,
  request: ClaimRequest,
  end: ArgumentsFor<typeof hasEnded.types>,
): ClaimStatements {
  const args = toArguments(deployment, request);
  return createClaimStatements(args, request, leaseAfter({ ...args, ...end }));
}

/**
 * Claims a run that is due and whose thread is free, in the order of due times (after a lost race any of the next few).
 * Requeues runs with expired leases first. Returns `none` if no run waits, and `blocked` if those that wait cannot start or
 * other processes were faster each time. See `Storage.claimRun`.
 * @statements selectCandidates · requeueExpired · acquireThreadLock · runClaimedStatements · leaseNext
 * @guards read expired leases and the next runs. Expired leases: requeue those runs if still expired, and read again.
 *   Otherwise batch: update the next run of the chosen thread to `running` with the token, if it is still next and the
 *   slot is free, and add time and worker to its `claim_log` · give the thread's slot to the token, and count its claim ·
 *   trace of a first attempt. Retries up to 10 times with more candidates.
 */
export async function claimRun(driver: Database, deployment: string, request: ClaimRequest): Promise<ClaimRunResult> {
  const args = toArguments(deployment, request);
  const { token, now } = args;
  for (let tries = 0; tries < MAX_TRIES; ) {
    // Read before locking: a claim follows every run, and usually nothing waits. Processes read the same runs, so one that came too
    // late chooses among more of them.
    const candidates = await driver.read(selectCandidates({ ...args, limit: tries === 0 ? 1 : MAX_CANDIDATES }));
    const expired = candidates.filter((row) => row.kind === "expired");
    if (expired.length > 0) {
      const run_ids = JSON.stringify(expired.map(({ run_id }) => run_id));
      const lock_keys = expired.map(({ thread_id }) => threadLockKey(deployment, thread_id));
      await driver.batch([requeueExpired({ deployment, run_ids, now })], lock_keys);
      continue;
    }
    const next = candidates.filter((row) => row.kind === "next");
    const chosen = next[(Number.parseInt(token.slice(-4), 16) || 0) % next.length];
    if (!chosen) return { kind: candidates.length > 0 ? "blocked" : "none" };
    const { thread_id } = chosen;
    const claim = createClaimStatements(args, request, leaseNext({ ...args, thread_id }));
    const results = await driver.batch(claim.statements, [threadLockKey(deployment, thread_id)]);
    const claimed = claim.toClaimedRun(createRowFinder(claim.statements, results));
    if (claimed) return { kind: "claimed", claimed };
    tries++;
  }
  return { kind: "blocked" };
}
