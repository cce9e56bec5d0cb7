/** Claims of runs. */
import type { ClaimedRun, ClaimRequest, ClaimRunResult } from "../../../lib/storage/mod.ts";
import { type Database, ofThread, type RowsOf, rowsIn } from "../database.ts";
import { whenClaimed } from "../features.ts";
import type { ArgumentsFor } from "../parameters.ts";
import type { Statement } from "../query.ts";
import {
  type hasEnded,
  type LeasedRun,
  leaseAfter,
  leaseNext,
  requeueExpired,
  selectCandidates,
  takeSlot,
} from "../statements/runs-claim.ts";
import { claimNote, toClaim } from "./row.ts";

/** How many candidates a claim reads when other processes took those that it has chosen. */
const CANDIDATES = 20;
/** How often a claim reads again when other processes took its candidates. */
const TRIES = 10;

type ClaimArguments = Omit<ArgumentsFor<typeof leaseNext.types>, "thread_id">;

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
    note: claimNote(worker, now),
  };
}

/** Statements that claim a run. */
export interface ClaimStatements {
  readonly statements: readonly Statement<unknown>[];
  /** Reads what they returned; null when they claimed no run. */
  claimed(rowsOf: RowsOf): ClaimedRun | null;
}

function claimStatements(args: ClaimArguments, request: ClaimRequest, lease: Statement<LeasedRun>): ClaimStatements {
  const slot = takeSlot(args);
  return {
    statements: [lease, slot, ...whenClaimed(args.deployment, request)],
    claimed(rowsOf) {
      const [[run], [thread]] = [rowsOf(lease), rowsOf(slot)];
      return run && thread ? toClaim(run, thread) : null;
    },
  };
}

/** Returns the statements that claim the next run when the same batch has ended this one. */
export function claimAfter(
  deployment: string,
  request: ClaimRequest,
  end: ArgumentsFor<typeof hasEnded.types>,
): ClaimStatements {
  const args = toArguments(deployment, request);
  return claimStatements(args, request, leaseAfter({ ...args, ...end }));
}

/**
 * See `Storage.claimRun`.
 *
 * @statements selectCandidates · requeueExpired · takeSlot · whenClaimed · leaseNext
 * @guards read expired leases and the next runs. Expired leases: requeue those runs if still expired, and read again.
 *   Otherwise batch: update the next run of the chosen thread to `running` with the token, if it is still next and the
 *   slot is free, and add time and worker to its `claim_log` · give the thread's slot to the token, and count its claim ·
 *   trace of a first attempt. Retries up to 10 times with more candidates.
 */
export async function claimRun(driver: Database, deployment: string, request: ClaimRequest): Promise<ClaimRunResult> {
  const args = toArguments(deployment, request);
  const { token, now } = args;
  for (let tries = 0; tries < TRIES; ) {
    // Read before locking: a claim follows every run, and usually nothing waits. Processes read the same runs, so one that came too
    // late chooses among more of them.
    const candidates = await driver.read(selectCandidates({ ...args, limit: tries === 0 ? 1 : CANDIDATES }));
    const expired = candidates.filter((row) => row.kind === "expired");
    if (expired.length > 0) {
      const run_ids = JSON.stringify(expired.map(({ run_id }) => run_id));
      const lock_keys = expired.map(({ thread_id }) => ofThread(deployment, thread_id));
      await driver.batch([requeueExpired({ deployment, run_ids, now })], lock_keys);
      continue;
    }
    const next = candidates.filter((row) => row.kind === "next");
    const chosen = next[(Number.parseInt(token.slice(-4), 16) || 0) % next.length];
    if (!chosen) return { kind: candidates.length > 0 ? "blocked" : "none" };
    const { thread_id } = chosen;
    const claim = claimStatements(args, request, leaseNext({ ...args, thread_id }));
    const results = await driver.batch(claim.statements, [ofThread(deployment, thread_id)]);
    const claimed = claim.claimed(rowsIn(claim.statements, results));
    if (claimed) return { kind: "claimed", claimed };
    tries++;
  }
  return { kind: "blocked" };
}
