/** The terms of the claims that a worker sends. */

import type { Environment } from "../environment.ts";
import type { Executor } from "../executor/contract.ts";
import type { ClaimRequest, ClaimTerms, TraceTerms } from "../storage/mod.ts";

export interface ClaimTermOptions {
  readonly executor: Executor;
  readonly environment: Environment;
  readonly lease_ms: number;
  /** The name of this process in the runs' `claim_log`. */
  readonly worker: string;
  readonly run_timeout_ms: number;
  /** How runs are billed. */
  readonly trace?: TraceTerms;
}

const MAX_ATTEMPTS = 3;

/** A fresh token for each claim: it identifies the lease. */
export function claimTerms({ environment, lease_ms, worker, trace }: ClaimTermOptions, now: number): ClaimTerms {
  return {
    token: environment.uuid(),
    lease_until: now + lease_ms,
    worker,
    ...(trace ? { trace } : {}),
  };
}

/** Builds claims for any run that this process can execute. */
export function claimRequests(options: ClaimTermOptions): (now: number) => ClaimRequest {
  const graphs = options.executor.graphs();
  const limits = {
    graph_ids: graphs.map(({ graph_id }) => graph_id),
    max_attempts: Object.fromEntries(
      graphs.map(({ graph_id, max_attempts }) => [graph_id, max_attempts ?? MAX_ATTEMPTS]),
    ),
    // Without a limit, an agent that starts anew each time would make progress for ever.
    progress_ms: Object.fromEntries(
      graphs
        .filter(({ resumes }) => resumes)
        .map(({ graph_id, timeout_ms }) => [graph_id, timeout_ms ?? options.run_timeout_ms]),
    ),
  };
  return (now) => ({ ...claimTerms(options, now), ...limits, now });
}
