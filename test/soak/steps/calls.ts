/** Calls of durable functions: their scripts, a client that takes one from its input to its end, and what it saw. */
import type { Json } from "../../../lib/mod.ts";
import type { Op, Script } from "../../simulation/durable/scripts.ts";
import type { Dice } from "../../simulation/random.ts";
import { Broken, type Client, type Frame } from "../client.ts";
import { sleep } from "../servers.ts";

/** Steps of a call, in all its chains. */
const STEPS = 20;
const CALM_MS = 50;
/** A reader that has a connection, and gets nothing for so long, has everything. */
export const QUIET_MS = 1_000;
export const EVENT_CHANNELS: readonly string[] = ["messages", "lifecycle"];

/** Twenty steps, with tokens inside and between them, sleeps, waits, an ask beside a sleep, and concurrent chains. */
export function createCallScript(dice: Dice, tag: string): Script {
  const chains: Op[][] = Array.from({ length: dice.between(1, 3) }, () => []);
  const createName = (chain: number): string => `${tag}.${chain}.${chains[chain]?.length}`;
  const add = (chain: number, op: Op): void => void chains[chain]?.push(op);
  for (let step = 0; step < STEPS; step++) {
    const chain = dice.below(chains.length);
    const kind = dice.pick(["none", "none", "none", "sleep", "wait", "yield", "yield"] as const);
    const name = createName(chain);
    if (kind === "sleep") add(chain, { kind, name, ms: dice.pick([10, 300, 2_500]) });
    if (kind === "wait") add(chain, { kind, name, timeout: null });
    if (kind === "yield") add(0, { kind, text: `${createName(0)} `, state: dice.chance(0.3) });
    add(chain, {
      kind: "step",
      name: createName(chain),
      ms: dice.pick([0, 5, 50, 200]),
      fails: dice.chance(0.05) ? 1 : 0,
      tokens: dice.chance(0.3) ? dice.between(1, 30) : 0,
    });
  }
  if (dice.chance(0.5)) {
    // An ask beside a sleep.
    const beside: Op[] = [{ kind: "ask", name: `${tag}.${chains.length}.0` }];
    const name = `${tag}.0.${chains[0]?.length}`;
    if (dice.chance(0.5)) add(0, { kind: "sleep", name, ms: 2_500 });
    chains.push(beside);
  } else if (chains.length === 1) add(0, { kind: "ask", name: createName(0) });
  return { tag, chains };
}

/** The frames that one reader received of one stream, over all its connections. */
export interface History {
  readonly thread_id: string;
  readonly run_id: string;
  readonly frames: Frame[];
  connections: number;
  /** The time since which a connection has received nothing new; null without one. */
  quiet_from: number | null;
}

export interface Call {
  readonly script: Script;
  readonly thread_id: string;
  readonly runs: string[];
  readonly v1: History[];
  readonly v2: History;
  /** The status of the thread when everything has ended. */
  status: string;
}

interface Interrupt {
  readonly id: string;
  readonly value: string;
}

/** Repeats a request to a server that may be dead, until a server responds. */
async function insist<Answer>(work: () => Promise<Answer>): Promise<Answer> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof Broken)) throw error;
      await sleep(CALM_MS);
    }
  }
}

/** Reads until the stream has ended, on as many connections as that takes. */
async function follow(client: Client, history: History, open: () => boolean, body?: () => object): Promise<void> {
  const { thread_id, run_id, frames } = history;
  const path = body ? `/threads/${thread_id}/stream/events` : `/threads/${thread_id}/runs/${run_id}/stream`;
  while (open()) {
    history.connections++;
    try {
      const headers: Record<string, string> = body
        ? {}
        : { "last-event-id": frames.findLast(({ id }) => id !== null)?.id ?? "-1" };
      const cut = Math.random() < 0.5 ? 200 + Math.random() * 3_000 : 20_000;
      const onHead = (response: { destroy(): unknown }): void => {
        history.quiet_from = Date.now();
        const timer = setTimeout(() => response.destroy(), cut);
        timer.unref();
      };
      await client.stream(
        body ? "POST" : "GET",
        path,
        body?.(),
        (frame) => {
          frames.push(frame);
          history.quiet_from = Date.now();
        },
        {
          headers,
          onHead,
        },
      );
      if (!body && frames.at(-1)?.event === "end") return;
    } catch (error) {
      if (!(error instanceof Broken)) throw error;
    }
    history.quiet_from = null;
    await sleep(20);
  }
}

/** Takes a call from its input to the end of its last run. */
export async function take(client: Client, dice: Dice, script: Script, assistant_id: string): Promise<Call> {
  const thread_id = dice.uuid();
  const v2: History = { thread_id, run_id: "", frames: [], connections: 0, quiet_from: null };
  const call: Call = { script, thread_id, runs: [], v1: [], v2, status: "" };
  const readers: Promise<void>[] = [];
  let over = false;
  const make = async (key: string, what: object): Promise<boolean> => {
    const body = { assistant_id, stream_mode: "messages-tuple", stream_resumable: true, ...what };
    const headers = { "idempotency-key": `${thread_id}/${key}` };
    const answer = await insist(() => client.call("POST", `/threads/${thread_id}/runs`, body, { headers }));
    // A run that the service has made for what was due goes first.
    if (answer.status === 409) return false;
    if (answer.status >= 400) throw new Error(`${script.tag}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return true;
  };
  const waitUntilKnown = async (): Promise<void> => {
    const list = await insist(() => client.get("GET", `/threads/${thread_id}/runs?limit=100`));
    for (const { run_id } of (list as { run_id: string }[]).toReversed()) {
      if (call.runs.includes(run_id)) continue;
      call.runs.push(run_id);
      const history: History = { thread_id, run_id, frames: [], connections: 0, quiet_from: null };
      call.v1.push(history);
      readers.push(follow(client, history, () => !over));
    }
  };
  await insist(() => client.get("POST", "/threads", { thread_id, if_exists: "do_nothing" }));
  const since = (): number => Math.max(1, ...v2.frames.map(({ data }) => Number(JSON.parse(data).seq) || 0));
  readers.push(
    follow(
      client,
      v2,
      () => !over,
      () => ({ channels: EVENT_CHANNELS, since: since() }),
    ),
  );
  // Messages are recorded once somebody has opened the events of the thread: runs that began before have none.
  while (v2.quiet_from === null) await sleep(20);
  await make("start", { input: script as unknown as Json });
  const waits = script.chains.flat().filter(({ kind }) => kind === "wait") as { name: string }[];
  const sentEvents = new Set<string>();
  for (let answers = 0; ; ) {
    await sleep(100 + dice.below(400));
    await waitUntilKnown();
    const thread = await insist(() => client.get("GET", `/threads/${thread_id}`));
    for (const { name } of waits) {
      if (sentEvents.has(name) || !dice.chance(0.3)) continue;
      // Twice where an answer was lost: an event of a name that nothing waits for any more is dropped with its call.
      const path = `/threads/${thread_id}/events/${encodeURIComponent(name)}`;
      const { status, body } = await insist(() => client.call("POST", path, { for: name }));
      if (status >= 400 && status !== 404) throw new Error(`${name}: ${status} ${JSON.stringify(body)}`);
      if (status < 400) sentEvents.add(name);
    }
    const open = Object.values(thread.interrupts ?? {}).flat() as Interrupt[];
    if (thread.status === "interrupted" && open.length > 0) {
      const { id, value } = dice.pick(open);
      const resume = { [id]: `answer to ${value}` };
      if (await make(`${answers}/${id}`, { command: { resume }, multitask_strategy: "reject" })) answers++;
    } else if (thread.status === "idle" || thread.status === "error") {
      call.status = thread.status;
      break;
    }
  }
  await waitUntilKnown();
  // Readers of runs end by themselves; the reader of events has everything a while later.
  const v1 = readers.slice(1);
  await Promise.race([Promise.all(v1), sleep(30_000)]);
  const isQuiet = (): boolean => v2.quiet_from !== null && Date.now() - v2.quiet_from > QUIET_MS;
  for (const until = Date.now() + 60_000; !isQuiet() && Date.now() < until; ) await sleep(CALM_MS);
  over = true;
  return call;
}
