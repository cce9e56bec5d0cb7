/** Invariant I13: when nothing is done to the server, no run waits that could start. */
import type { Inspection } from "../database.ts";

/** The oldest pending run of each thread on which nothing runs, while fewer runs execute than may. */
export const COULD_START: string = `select run_id from runs as r where status = 'pending' and due_at <= ?
  and not exists (select 1 from runs as o where o.thread_id = r.thread_id and o.status = 'running')
  and not exists (select 1 from runs as o where o.thread_id = r.thread_id and o.status = 'pending' and o.seq < r.seq)
  and not exists (select 1 from threads as t where t.thread_id = r.thread_id and t.slot_token is not null)
  and (select count(*) from runs where status = 'running') < 50`;

const EVERY_MS = 50;
/** A late look, because this process had no time, does not show the time in between. */
const LATE_MS = 250;

export interface Liveness {
  /** Ends the watch. Returns the longest time that a run waited, in milliseconds. */
  stop(): number;
}

/** Looks all the time, from `from_ms` from now on. */
export function watchLiveness(database: Inspection, from_ms: number): Liveness {
  return watchWaits((now) => database.rows(COULD_START, now).map(({ run_id }) => String(run_id)), from_ms);
}

/** Watches as `watchLiveness` does, with a `look` that may be asynchronous. `look` returns the runs that could start. */
export function watchWaits(look: (now: number) => string[] | Promise<string[]>, from_ms: number): Liveness {
  const since = new Map<string, number>();
  const from = Date.now() + from_ms;
  let longest = 0;
  let looked = Date.now();
  let looking = false;
  const timer = setInterval(async () => {
    const now = Date.now();
    if (looking || now < from) return;
    if (now - looked > LATE_MS) since.clear();
    looked = now;
    looking = true;
    const ids = new Set(await look(now));
    looking = false;
    for (const id of since.keys()) if (!ids.has(id)) since.delete(id);
    for (const run_id of ids) {
      const first = since.get(run_id) ?? now;
      since.set(run_id, first);
      longest = Math.max(longest, now - first);
    }
  }, EVERY_MS);
  return {
    stop() {
      clearInterval(timer);
      return longest;
    },
  };
}
