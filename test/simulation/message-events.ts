/** The checks of the messages in the events of threads, after everything has ended. */
import { EVENT_METHODS } from "../../lib/storage/rows.ts";
import { stripPadding } from "./agent.ts";
import type { ThreadNote } from "./oracle/notes.ts";
import type { World } from "./world.ts";

type Entry = [offset: number, method: number, namespace: readonly string[], timestamp: number, data: string];

const MESSAGES = EVENT_METHODS.indexOf("messages");

/** Returns the events of each message of a run, in their order. */
function readWords(world: World, run_id: string): Map<string, string[]> {
  const rows = world.database.query("select events from thread_events where run_id = ? order by first_seq", [run_id]);
  const words = new Map<string, string[]>();
  for (const [, method, , , data] of rows.flatMap(({ events }) => JSON.parse(String(events)) as Entry[])) {
    if (method !== MESSAGES) continue;
    const { event, run_id: name } = JSON.parse(data) as { event: string; run_id: string };
    words.set(name, [...(words.get(name) ?? []), event]);
  }
  return words;
}

/**
 * Checks I16: every message that has started ends, before its run or with it, and again when it starts again. One that its thread's state
 * has does not end with an error, and is not missing, unless its executor went on after it was told to stop.
 */
export function checkMessages(world: World, thread: ThreadNote, messages: readonly string[]): void {
  if (world.plan.lag_ms === 0) return;
  for (const run of thread.runs) {
    if (run.fate !== "present" || run.temporary || !run.savesItself) continue;
    const words = readWords(world, run.run_id);
    const refuse = (name: string, text: string): void =>
      world.violation("I16", `${name} ${text}: ${(words.get(name) ?? []).join() || "nothing"}; ${run.state.status}`);
    for (const [name, list] of words) {
      const open = list.some((word, at) => (word === "message-start") !== (at % 2 === 0));
      if (open || list.length % 2 > 0) refuse(name, "has starts without ends, or ends without starts");
    }
    for (const name of messages) {
      const last = words.get(name)?.at(-1);
      if (!run.script.deaf && name.startsWith(`${run.tag}/`) && last !== "message-finish")
        refuse(name, "is in the state, and did not finish");
    }
  }
}

export const readStateMessages = (values: unknown): string[] =>
  ((values as { messages?: string[] } | null)?.messages ?? []).map(stripPadding);
