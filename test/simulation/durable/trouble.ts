/** The trouble that befalls a thread whose durable function is active: another run, a cancel, its deletion. */
import type { Json } from "../../../lib/mod.ts";
import type { RunOrigin } from "../../../lib/runs/mod.ts";
import type { Storage } from "../../../lib/storage/mod.ts";
import type { Dice } from "../random.ts";
import { type Call, type ClientThread, createCaller } from "./client.ts";
import { createMessages, createScript, type Script } from "./scripts.ts";
import { LEASE_MS, type World } from "./world.ts";

const KINDS = ["enqueue", "interrupt", "rollback", "reject", "cancel", "cancel by rollback", "delete"] as const;

export interface Trouble {
  readonly kind: (typeof KINDS)[number];
  readonly after_ms: number;
  /** What a second run does; it asks nothing. */
  readonly second: Script | null;
  make(talk: ClientThread, call: Call, once: RunOrigin): Promise<void>;
}

/** Draws the trouble of a thread; null if it has none. */
export function pickTrouble(dice: Dice, tag: string): Trouble | null {
  if (!dice.chance(0.3)) return null;
  const kind = dice.pick(KINDS);
  const after_ms = dice.pick([100, 3_000, 10_000, 40_000]);
  if (kind === "delete") {
    const make: Trouble["make"] = async ({ thread_id }, call) =>
      void (await call((service) => service.threads.delete(thread_id)));
    return { kind, after_ms, second: null, make };
  }
  if (kind === "cancel" || kind === "cancel by rollback") {
    const action = kind === "cancel" ? "interrupt" : "rollback";
    const make: Trouble["make"] = async ({ thread_id }, call) => {
      const runs = await call((service) => service.runs.list(thread_id));
      if (runs instanceof Error) return;
      const active = runs.find(({ status }) => status === "pending" || status === "running");
      if (active) await call((service) => service.runs.cancel(thread_id, active.run_id, { action }));
    };
    return { kind, after_ms, second: null, make };
  }
  const drawn = createScript(dice, `${tag}b`);
  const second = { ...drawn, chains: drawn.chains.map((chain) => chain.filter((op) => op.kind !== "ask")) };
  const make: Trouble["make"] = async (talk, call, once) => {
    const input = second as unknown as Json;
    const request = { assistant_id: "durable", input, stream_mode: "messages-tuple", stream_resumable: true } as const;
    const run = await call((service) =>
      service.runs.create(talk.thread_id, { ...request, multitask_strategy: kind }, once),
    );
    if (!(run instanceof Error)) talk.second = run.run_id;
  };
  return { kind, after_ms, second, make };
}

const SCOPE = { deployment: "default" };

/** The second run is whole; nothing of a deleted thread is left; no call is open that nothing continues. */
export async function checkTrouble(world: World, { thread_id, script, trouble, second }: ClientThread): Promise<void> {
  const storage = world.storage as Storage;
  const { kind } = trouble as Trouble;
  const what = `${script.tag} after ${kind}`;
  if (kind === "delete") {
    for (const table of ["threads", "runs", "checkpoints", "calls", "call_entries", "call_events", "call_tokens"]) {
      const rows = world.database.query(`select count(*) as n from ${table} where thread_id = ?`, [thread_id]);
      if (Number(rows[0]?.n) > 0) world.violation("left", `${what}: ${rows[0]?.n} rows of ${table}`);
    }
    return;
  }
  const active = world.database.query("select count(*) as n from runs where thread_id = ? and ended_at is null", [
    thread_id,
  ]);
  if (Number(active[0]?.n) > 0) world.violation("rests", `${what}: a run has not ended`);
  const isDue = (): boolean => {
    const rows = world.database.query(
      "select count(*) as n from calls where thread_id = ? and ended_at is null and due_at <= ?",
      [thread_id, world.scheduler.now],
    );
    return Number(rows[0]?.n) > 0;
  };
  // The service looks at calls that are due each second.
  for (let i = 0; i < 15 && isDue(); i++) await createCaller(world).pause(1_000);
  if (isDue()) world.violation("due", `${what}: a call is due, and nothing continues it`);
  if (!second) return;
  const run = await storage.getRun(SCOPE, second);
  if (run?.status !== "success") {
    return world.violation("second", `${what}: the second run ended as ${run?.status}: ${JSON.stringify(run?.error)}`);
  }
  const expected = createMessages((trouble as Trouble).second as Script);
  const state = await world.up()?.threads.state(thread_id);
  const messages = (state?.values as { messages?: { content: string }[] } | undefined)?.messages ?? [];
  const last = expected && messages.slice(messages.length - expected.length).map(({ content }) => content);
  if (JSON.stringify(last) !== JSON.stringify(expected)) {
    world.violation("second", `${what} has ${JSON.stringify(messages)}, not ${JSON.stringify(expected)} at its end`);
  }
}

/** The time in milliseconds for which a process may continue before it learns that its run is gone. */
const UNAWARE_MS = 2 * LEASE_MS;

/**
 * No step of the first run begins after one of the second, or long after the thread was deleted. True: the step may be repeated,
 * because a rollback has undone it.
 */
export function checkBegin(world: World, talks: readonly ClientThread[], name: string): boolean {
  const [tag] = name.split(".");
  const talk = talks.find(({ script }) => script.tag === tag);
  if (!talk?.trouble) return false;
  const began = [...world.begins.keys()].find((begunName) => begunName.startsWith(`${tag}b.`));
  if (began) world.violation("beside", `${name} begins after ${began}, on one thread`);
  const { kind } = talk.trouble;
  const late = kind === "delete" && talk.acted !== null && world.scheduler.now > talk.acted + UNAWARE_MS;
  if (late) world.violation("deleted", `${name} begins after its thread was deleted`);
  return kind === "rollback" || kind === "cancel by rollback";
}
