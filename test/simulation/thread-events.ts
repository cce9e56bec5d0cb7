/** The checks of the events of threads, after everything has ended. */
import { FIRST_EVENT_NUMBER } from "../../lib/storage/rows.ts";
import type { World } from "./world.ts";

/** The size of an event that contains only the end of a run. */
const END_SIZE = 30;

/** Returns a condition for the rows that attempts have stored. Other rows say that a run was stopped or deleted. */
export const ofAttempts = (row = ""): string =>
  `${row}first_seq % ${2 ** 32} >= ${FIRST_EVENT_NUMBER} and ${row}size <> ${END_SIZE}`;

type Entry = [offset: number, method: number, namespace: readonly string[], timestamp: number, data: string];

/**
 * Checks I15: events rise along their thread; a run that has ended has one end, behind all of its others, and begins at most once. One that
 * was removed from its thread has its end alone.
 */
export function checkThreadEvents(world: World): void {
  const { database, oracle } = world;
  const refuse = (text: string): void => world.violation("I15", text);
  const rows = database.query("select * from thread_events order by thread_id, first_seq");
  const counts = new Map<string, { begins: number; ends: number; hasEventsAfterEnd: boolean }>();
  let before: { thread_id: unknown; last_seq: number } = { thread_id: null, last_seq: 0 };
  for (const { thread_id, first_seq, last_seq, run_id, events } of rows) {
    const [first, last] = [Number(first_seq), Number(last_seq)];
    if (before.thread_id === thread_id && first <= before.last_seq) refuse(`${first} follows ${before.last_seq}`);
    before = { thread_id, last_seq: last };
    const run = counts.get(String(run_id)) ?? { begins: 0, ends: 0, hasEventsAfterEnd: false };
    counts.set(String(run_id), run);
    for (const [, method, namespace, , data] of JSON.parse(String(events)) as Entry[]) {
      run.hasEventsAfterEnd ||= run.ends > 0;
      if (method !== 0 || namespace.length > 0) continue;
      if ((JSON.parse(data) as { event: string }).event === "running") run.begins++;
      else run.ends++;
    }
  }
  for (const run of oracle.runs.byId.values()) {
    if (run.temporary || run.thread.deleted || run.thread.state.hidden === 1) continue;
    const { begins, ends, hasEventsAfterEnd } = counts.get(run.run_id) ?? {
      begins: 0,
      ends: 0,
      hasEventsAfterEnd: false,
    };
    if ((run.fate === "deleted" || run.fate === "rolled_back") && (ends !== 1 || begins > 0)) {
      refuse(`${run.tag} is ${run.fate}: ${begins} begins, ${ends} ends`);
    }
    if (run.fate === "present" && (ends !== 1 || begins > 1 || hasEventsAfterEnd)) {
      refuse(
        `${run.tag} is ${run.state.status}: ${begins} begins, ${ends} ends${hasEventsAfterEnd ? ", and events behind its end" : ""}`,
      );
    }
  }
}
