/** A client of a durable function: makes a run of a script, sends events, answers asks, and makes trouble. */
import type { Json } from "../../../lib/mod.ts";
import type { Service } from "../../../lib/service.ts";
import type { Script } from "./scripts.ts";
import type { Trouble } from "./trouble.ts";
import type { World } from "./world.ts";

/** The state of a client and its thread. */
export interface ClientThread {
  readonly thread_id: string;
  readonly script: Script;
  readonly trouble: Trouble | null;
  /** The virtual time of the trouble; null before it. */
  acted: number | null;
  /** The run of the second script. */
  second: string | null;
}

export type Call = <Answer>(ask: (service: Service) => Promise<Answer>) => Promise<Answer | Error>;

const STREAMED = { assistant_id: "durable", stream_mode: "messages-tuple", stream_resumable: true } as const;

/** Calls a service until one answers; each may die meanwhile. */
export function createCaller(world: World): { readonly pause: (ms: number) => Promise<void>; readonly call: Call } {
  const { scheduler, dice } = world;
  const pause = (ms: number): Promise<void> => new Promise((resolve) => void scheduler.at(ms, null, resolve));
  const call: Call = async (ask) => {
    for (;;) {
      const service = world.up();
      if (service) {
        const answer = ask(service).catch((error: Error) => error);
        const late = pause(20_000).then(() => "late" as const);
        const first = await Promise.race([answer, late]);
        if (first !== "late" && !/store|stopping/.test(String(first))) return first;
      }
      await pause(dice.between(50, 500));
    }
  };
  return { pause, call };
}

/** `done` is called when nothing is left to do. */
export async function client(world: World, talk: ClientThread, done: () => void): Promise<void> {
  const { scheduler, dice } = world;
  const { pause, call } = createCaller(world);
  const { script, thread_id, trouble } = talk;
  const once = (key: string) => ({ idempotency: { route: "simulation", key: `${thread_id} ${key}`, body_hash: "" } });
  await call((service) => service.threads.create({ thread_id, if_exists: "do_nothing" }));
  const input = script as unknown as Json;
  await call((service) => service.runs.create(thread_id, { ...STREAMED, input }, once("first")));
  const troubled = scheduler.now + (trouble?.after_ms ?? 0);
  const sentEvents = new Set<string>();
  const listWaits = ({ chains }: Script): string[] =>
    chains.flat().flatMap((op) => (op.kind === "wait" ? [op.name] : []));
  let answers = 0;

  async function send(names: readonly string[]): Promise<void> {
    for (const name of names) {
      if (sentEvents.has(name) || !dice.chance(0.3)) continue;
      const answer = await call((service) => service.threads.send(thread_id, name, { for: name }));
      if (!(answer instanceof Error)) sentEvents.add(name);
    }
  }

  /** Returns the events that the second run waits for: an event that comes earlier may go to the first one's call. */
  async function findAwaitedEvents(): Promise<string[]> {
    const run = talk.second && (await call((service) => service.runs.get(thread_id, talk.second as string)));
    if (!run || run instanceof Error) return [];
    return (run.waiting_for ?? []).flatMap(({ kind, name }) => (kind === "wait" ? [name] : []));
  }

  for (;;) {
    await pause(dice.between(100, 3_000));
    if (trouble && talk.acted === null && scheduler.now >= troubled) {
      await trouble.make(talk, call, once("second"));
      talk.acted = scheduler.now;
      // A cancel ends the call: an answer continues its results in another one, without its events.
      sentEvents.clear();
      if (trouble.kind === "delete") break;
    }
    const thread = await call((service) => service.threads.get(thread_id));
    if (thread instanceof Error) continue;
    await send([...listWaits(script), ...(await findAwaitedEvents())]);
    const open = Object.values(thread.interrupts).flat() as unknown as { id: string; value: string }[];
    if (thread.status === "interrupted" && open.length > 0) {
      const chosen = dice.pick(open);
      const resume = { [chosen.id]: `answer to ${chosen.value}` };
      const answer = { ...STREAMED, command: { resume }, multitask_strategy: "reject" } as const;
      const key = once(`${++answers} ${chosen.id}`);
      await call((service) => service.runs.create(thread_id, answer, key));
    } else if (thread.status !== "busy" && (!trouble || talk.acted !== null)) break;
  }
  done();
}
