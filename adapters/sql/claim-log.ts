/** The log of the claims of a run, as its row has it. */
import type { ListedRun, RunClaim } from "../../lib/storage/mod.ts";

/** Returns the text that a claim adds to the front of `claim_log`; empty for a claim without a worker. */
export const createClaimLogEntry = (worker: string | undefined, at: number): string =>
  worker === undefined ? "" : `${JSON.stringify({ at, worker })}\n`;

/** A line of the log: a claim, or the end of a lease that was lost, which stands before the line of its claim. */
type LogLine = { readonly at: number; readonly worker: string } | { readonly lease_until: number };

/** Returns the claims, oldest first, with the number of each. What follows the last end of a line was cut off and is left out. */
export function parseClaims(stored: string | null, claims: number): readonly RunClaim[] {
  const lines = (stored ?? "").split("\n").slice(0, -1);
  const list: RunClaim[] = [];
  let lost_lease_until: number | null = null;
  for (const line of lines) {
    const entry = JSON.parse(line) as LogLine;
    if ("lease_until" in entry) lost_lease_until = entry.lease_until;
    else {
      list.push({ claim: claims - list.length, at: entry.at, worker: entry.worker, lost_lease_until });
      lost_lease_until = null;
    }
  }
  return list.reverse();
}

/** Returns times and workers of the claims, oldest first. */
export const parseClaimLog = (stored: string | null): ListedRun["claim_log"] =>
  parseClaims(stored, 0).map(({ at, worker }) => ({ at, worker }));
