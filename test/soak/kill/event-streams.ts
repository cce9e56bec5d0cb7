/** Readers of thread events: the events of all their connections, compared with a replay after the faults. */
import { Broken, type Client, type Frame } from "../client.ts";
import type { Inspection } from "../database.ts";
import { sleep } from "../servers.ts";
import { each, type RunSeen } from "./streams.ts";

const CHANNELS = ["lifecycle", "values", "checkpoints", "input", "updates", "messages", "tools", "tasks", "custom"];
const TURN = 2 ** 32;
const random = (below: number): number => Math.floor(Math.random() * below);

/** The events of one connection, or of several of a reader that resumes with `since`. */
interface EventHistory {
  readonly thread_id: string;
  readonly events: Frame[];
  connections: number;
}

export interface EventWatch {
  readonly histories: readonly EventHistory[];
  readonly problems: readonly string[];
  finish(): Promise<void>;
}

/** Reads threads while the server is killed: half of the readers go on behind their last event, the others begin again. */
export function watchEvents(client: Client, threads: () => readonly string[], readers: number): EventWatch {
  const histories: EventHistory[] = [];
  const problems: string[] = [];
  let stopping = false;

  async function read(thread_id: string, resumes: boolean): Promise<void> {
    let history: EventHistory = { thread_id, events: [], connections: 0 };
    histories.push(history);
    for (let remaining = 2 + random(4); remaining > 0 && !stopping; remaining--) {
      const since = Number(JSON.parse(history.events.at(-1)?.data ?? '{"seq":0}').seq);
      if (!resumes && history.connections > 0) {
        history = { thread_id, events: [], connections: 0 };
        histories.push(history);
      }
      const { events } = history;
      const body = { channels: CHANNELS, ...(resumes ? { since } : {}) };
      try {
        const status = await client.stream("POST", path(thread_id), body, (frame) => void events.push(frame), {
          onHead(response) {
            history.connections++;
            setTimeout(() => response.destroy(), 20 + random(1_500));
          },
        });
        if (status >= 400) problems.push(`events of thread ${thread_id} were answered ${status}`);
      } catch (error) {
        if (!(error instanceof Broken)) throw error;
        await sleep(20);
      }
    }
  }

  async function loop(resumes: boolean): Promise<void> {
    while (!stopping) {
      const all = threads();
      // The newest threads are those in use.
      const thread_id = all[Math.max(0, all.length - 1 - random(24))];
      if (thread_id === undefined) await sleep(20);
      else await read(thread_id, resumes).catch((error: Error) => void problems.push(error.message));
    }
  }

  const loops = Array.from({ length: readers }, (_, at) => loop(at % 2 === 0));
  return {
    histories,
    problems,
    async finish() {
      stopping = true;
      await Promise.all(loops);
    },
  };
}

/** Longer than a busy machine lets a stream wait. */
const PAUSE_MS = 5_000;
const path = (thread_id: string): string => `/threads/${thread_id}/stream/events`;

interface Event {
  readonly seq: number;
  readonly event_id: string;
  readonly method: string;
  readonly params: { readonly namespace: readonly string[]; readonly data: { readonly event?: string } };
}

export interface EventFaults {
  readonly order: string[];
  readonly missing: string[];
  readonly differ: string[];
  readonly ends: string[];
  readonly size: string;
}

/** Checks the event histories. `runs`: the runs that exist. */
export async function checkEvents(
  { histories }: EventWatch,
  client: Client,
  database: Inspection,
  runs: ReadonlyMap<string, RunSeen>,
): Promise<EventFaults> {
  const faults: EventFaults = {
    ...{ order: [], missing: [], differ: [], ends: [] },
    size: [histories.length, histories.reduce((sum, history) => sum + history.connections, 0)]
      .concat(histories.reduce((sum, history) => sum + history.events.length, 0))
      .join(", "),
  };
  const replays = new Map<string, readonly Frame[]>();
  await each([...new Set(histories.map(({ thread_id }) => thread_id))], async (thread_id) => {
    const [newest] = database.rows("select max(last_seq) as seq from thread_events where thread_id = ?", thread_id);
    const replay = await readReplay(client, thread_id, Number(newest?.seq));
    replays.set(thread_id, replay);
    checkOrder(`the replay of thread ${thread_id}`, replay, faults);
    checkEnds(thread_id, replay, runs, faults);
  });
  for (const [at, { thread_id, events }] of histories.entries()) {
    const name = `events ${at} of thread ${thread_id}`;
    checkOrder(name, events, faults);
    compare(name, events, replays.get(thread_id) ?? [], faults);
  }
  return faults;
}

const read = ({ data }: Frame): Event => JSON.parse(data) as Event;

/** Reads all stored events up to `newest`. The stream stays open, so a pause counts as its end if `newest` does not come. */
async function readReplay(client: Client, thread_id: string, newest: number): Promise<readonly Frame[]> {
  const events: Frame[] = [];
  let last = Date.now();
  let complete = false;
  const take = (frame: Frame): void => {
    events.push(frame);
    last = Date.now();
    complete ||= read(frame).seq >= newest;
  };
  await client
    .stream("POST", path(thread_id), { channels: CHANNELS }, take, {
      onHead(response) {
        last = Date.now();
        const timer = setInterval(() => {
          if (!complete && Date.now() - last < PAUSE_MS) return;
          clearInterval(timer);
          response.destroy();
        }, 50);
      },
    })
    .catch((error) => {
      if (!(error instanceof Broken)) throw error;
    });
  return events;
}

function checkOrder(name: string, frames: readonly Frame[], { order }: EventFaults): void {
  let before = 0;
  for (const frame of frames) {
    const { seq, event_id } = read(frame);
    if (seq <= before) order.push(`${name}: ${seq} after ${before}`);
    if (event_id !== frame.id) order.push(`${name}: event ${event_id} has id ${frame.id}`);
    before = seq;
  }
}

/** A reader has every event of the replay up to its last one, and no other, except of runs that were rolled back. */
function compare(name: string, frames: readonly Frame[], replay: readonly Frame[], faults: EventFaults): void {
  const [first, last] = [frames[0], frames.at(-1)];
  if (!first || !last) return;
  const receivedBySeq = new Map(frames.map((frame) => [read(frame).seq, frame.data]));
  const [from, to] = [read(first).seq, read(last).seq];
  const replayBySeq = new Map(replay.map((frame) => [read(frame).seq, frame.data]));
  const turns = new Set([...replayBySeq.keys()].map((seq) => Math.floor(seq / TURN)));
  for (const [seq, data] of replayBySeq) {
    if (seq < from || seq > to) continue;
    if (!receivedBySeq.has(seq)) faults.missing.push(`${name}: without ${seq} ${data.slice(0, 120)}`);
    else if (receivedBySeq.get(seq) !== data)
      faults.differ.push(`${name}: ${receivedBySeq.get(seq)} and later ${data}`);
  }
  for (const [seq, data] of receivedBySeq) {
    const isExplained = replayBySeq.has(seq) || !turns.has(Math.floor(seq / TURN));
    if (!isExplained) faults.missing.push(`${name}: the replay is without ${seq} ${data.slice(0, 120)}`);
  }
}

/** One `running` at most and one end for each run that has ended. */
function checkEnds(
  thread_id: string,
  replay: readonly Frame[],
  runs: ReadonlyMap<string, RunSeen>,
  { ends }: EventFaults,
): void {
  const words = new Map<string, string[]>();
  for (const { event_id, method, params } of replay.map(read)) {
    if (method !== "lifecycle" || params.namespace.length > 0) continue;
    const [, run_id = ""] = event_id.split(":");
    words.set(run_id, [...(words.get(run_id) ?? []), params.data.event ?? ""]);
  }
  for (const [run_id, list] of words) {
    const ended = list.filter((word) => word !== "running").length;
    if (ended === 1 && list.length <= 2 && list.at(-1) !== "running") continue;
    ends.push(`run ${run_id} of thread ${thread_id} (${runs.get(run_id)?.status ?? "gone"}): ${list.join()}`);
  }
}
