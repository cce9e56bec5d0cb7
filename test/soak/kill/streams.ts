/** Invariant I6: what readers saw of streams that can be resumed, over all their connections, against what is stored. */
import type { Client, Frame } from "../client.ts";
import type { Create, Facts } from "./facts.ts";

const AT_ONCE = 16;

/** A run as the API returns it after the faults. */
export interface RunSeen {
  readonly run_id: string;
  readonly status: string;
  readonly created_at: string;
  readonly updated_at: string;
  readonly metadata: { readonly soak?: { readonly key: string } };
}

/** Does the work for all of them, some at a time. */
export async function each<Item>(items: readonly Item[], work: (item: Item) => Promise<void>): Promise<void> {
  const queue = [...items];
  const loop = async (): Promise<void> => {
    for (let item = queue.pop(); item !== undefined; item = queue.pop()) await work(item);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, loop));
}

export interface StreamFaults {
  readonly frames: string[];
  readonly ends: string[];
  readonly differ: string[];
  readonly size: string;
}

/** Compares every history of a resumable stream with its replay by the server. */
export async function checkStreams(
  { facts, client }: { readonly facts: Facts; readonly client: Client },
  acknowledged: readonly Create[],
  runsById: ReadonlyMap<string, RunSeen>,
): Promise<StreamFaults> {
  const frames: string[] = [];
  const ends: string[] = [];
  const differ: string[] = [];
  const replays = new Map<string, readonly Frame[]>();
  const creates = new Map(acknowledged.map((create) => [create.run_id, create]));
  await each(
    acknowledged.filter(({ framed, run_id = "" }) => framed && runsById.has(run_id)),
    async (create) => {
      const { run_id = "", thread_id } = create;
      const replay: Frame[] = [];
      const path = `/threads/${thread_id}/runs/${run_id}/stream`;
      const status = await client.stream("GET", path, undefined, (frame) => void replay.push(frame), {
        headers: { "last-event-id": "-1" },
      });
      if (status !== 200) ends.push(`run ${run_id}: its replay was answered ${status}`);
      replays.set(run_id, replay);
      frames.push(...findGaps(`replay of run ${run_id}`, replay, create, runsById.get(run_id)));
      ends.push(...findWrongLinks(`replay of run ${run_id}`, replay, create));
      ends.push(...findWrongEnd(`replay of run ${run_id}`, replay, runsById.get(run_id)));
    },
  );
  const histories = facts.histories.map((history) => ({ ...history, frames: removeNote(history.frames) }));
  for (const [at, history] of histories.entries()) {
    const name = `history ${at} of run ${history.run_id} over ${history.connections} connections`;
    const replay = replays.get(history.run_id);
    if (!replay) {
      if (!history.outcome) ends.push(`${name}: neither an end nor a 404`);
      frames.push(...findGaps(name, history.frames, creates.get(history.run_id), undefined));
      continue;
    }
    frames.push(...findGaps(name, history.frames, creates.get(history.run_id), runsById.get(history.run_id)));
    ends.push(...findWrongEnd(name, history.frames, runsById.get(history.run_id)));
    ends.push(...findWrongLinks(name, history.frames, creates.get(history.run_id)));
    const replayById = new Map(replay.map((frame) => [frame.id, frame]));
    for (const { id, event, data } of history.frames) {
      const replayed = replayById.get(id);
      if (replayed?.event === event && replayed.data === data) continue;
      differ.push(
        `${name}: id ${id} was ${event} ${data.slice(0, 80)}, and is ${replayed?.event} ${replayed?.data.slice(0, 80)}`,
      );
      break;
    }
  }
  const connections = facts.histories.reduce((sum, history) => sum + history.connections, 0);
  const count = facts.histories.reduce((sum, history) => sum + history.frames.length, 0);
  return { frames, ends, differ, size: `${facts.histories.length}, ${connections}, ${count}` };
}

/**
 * A stream may begin with the word that its run waits for one that is being stopped, once for each connection that began before the
 * run did. It has no id, and a replay does not show it.
 */
function removeNote(frames: readonly Frame[]): readonly Frame[] {
  const first = frames.findIndex(({ id, event, data }) => {
    return id !== null || event !== "metadata" || (JSON.parse(data) as { reason?: unknown }).reason !== "RunStopping";
  });
  return first < 0 ? [] : frames.slice(first);
}

/** Ids count up from 1 without a gap; within one attempt so do the tokens, up to the last one of a run that succeeded. */
function findGaps(
  name: string,
  frames: readonly Frame[],
  create: Create | undefined,
  run: RunSeen | undefined,
): string[] {
  const problems: string[] = [];
  for (const [at, frame] of frames.entries()) {
    if (frame.id === String(at + 1)) continue;
    // A run that was rolled back leaves its readers with what they had, a word that the rest is missing, and an end of its own.
    if (!run && (frame.id === null || frame.event === "error" || frame.event === "end")) break;
    problems.push(`${name}: frame ${at + 1} (${frame.event}) has id ${frame.id}`);
    break;
  }
  let next: number | null = null;
  for (const { event, data } of frames) {
    if (event === "metadata") next = null;
    if (event !== "custom") continue;
    const { n } = JSON.parse(data) as { n: number };
    if (next !== null && n !== next) problems.push(`${name}: token ${n} where ${next} was due`);
    next = n + 1;
  }
  const all = (create?.plan.steps ?? 1) * (create?.plan.tokens ?? 0);
  // An attempt that found its work done shows no token again.
  if (run?.status === "success" && next !== null && next !== all) {
    problems.push(`${name}: ends with ${next} of ${all} tokens`);
  }
  return problems;
}

/** Checks I10: the links of a run with feedback keys come once, right before its error and its end. */
function findWrongLinks(name: string, frames: readonly Frame[], create: Create | undefined): string[] {
  const events = frames.map(({ event }) => event);
  const before = events.at(-2) === "error" ? events.at(-3) : events.at(-2);
  const count = events.filter((event) => event === "feedback").length;
  if (count === (create?.keyed ? 1 : 0) && (count === 0 || before === "feedback")) return [];
  return [`${name}: ${count} feedback frames, its last events are ${events.slice(-3).join()}`];
}

function findWrongEnd(name: string, frames: readonly Frame[], run: RunSeen | undefined): string[] {
  const ends = frames.filter(({ event }) => event === "end");
  if (ends.length !== 1 || frames.at(-1)?.event !== "end")
    return [`${name}: ${ends.length} ends, last ${frames.at(-1)?.event}`];
  const { status } = JSON.parse(ends[0]?.data ?? "null") ?? {};
  return status === run?.status ? [] : [`${name}: its end says ${status}, the run says ${run?.status}`];
}
