/** Durable functions under crashes, failing stores and stops, on a virtual clock. One seed decides everything. */
import type { Json, JsonObject } from "../../../lib/mod.ts";
import type { Storage } from "../../../lib/storage/mod.ts";
import { Database } from "../database.ts";
import { Dice } from "../random.ts";
import { makeSteady } from "../steady.ts";
import { type ClientThread, client } from "./client.ts";
import { createMessages, createScript } from "./scripts.ts";
import { checkSpans } from "./spans.ts";
import { checkBegin, checkTrouble, pickTrouble } from "./trouble.ts";
import { END_MS, LEASE_MS, START, World } from "./world.ts";

export interface DurableOutcome {
  readonly violations: readonly { readonly rule: string; readonly text: string }[];
  readonly trace: readonly string[];
  readonly counts: Readonly<Record<string, number>>;
}

/** The final state, what was stored of it, and what readers saw. */
async function check(world: World, { script, thread_id }: ClientThread): Promise<void> {
  const storage = world.storage as Storage;
  const scope = { deployment: "default" };
  const service = world.up();
  const state = await service?.threads.state(thread_id);
  const values = (state?.values ?? {}) as { messages?: { content: string; id: string }[]; results?: JsonObject };
  const { tag } = script;
  const thread = await storage.getThread(scope, thread_id);
  if (thread?.status !== "idle")
    return world.violation("ends", `${tag} ended as ${thread?.status}: ${JSON.stringify(thread?.error)}`);
  for (const op of script.chains.flat()) {
    if (op.kind === "yield" || op.kind === "sleep") continue;
    const result = values.results?.[op.name];
    const expected: Json =
      op.kind === "ask"
        ? `answer to ${op.name}`
        : op.kind === "wait"
          ? { for: op.name }
          : op.tokens > 0
            ? Array.from({ length: op.tokens }, (_, i) => `${op.name}#${i} `).join("")
            : op.name;
    const timedOut = op.kind === "wait" && op.timeout !== null && result === null;
    if (!timedOut && JSON.stringify(result) !== JSON.stringify(expected)) {
      world.violation("results", `${op.name} gave ${JSON.stringify(result)}`);
    }
    if (op.kind === "step" && (world.ends.get(op.name) ?? 0) < 1) world.violation("executed", `${op.name} never ended`);
  }
  const messages = values.messages ?? [];
  const expected = createMessages(script);
  const texts = messages.map(({ content }) => content);
  if (expected && JSON.stringify(texts) !== JSON.stringify(expected)) {
    world.violation("state", `${tag} has ${JSON.stringify(texts)} instead of ${JSON.stringify(expected)}`);
  }
  // The stored frames of all runs: each message of the state was shown once, whole and in order.
  const emittedTexts = new Map<string, string>();
  for (const { run_id } of (await storage.listRuns(scope, thread_id, { limit: 100, offset: 0 })).toReversed()) {
    for (let after = 0; ; ) {
      const frames = await storage.readFrames(scope, run_id, after);
      for (const { id, event, data } of frames) {
        after = id;
        if (event !== "messages") continue;
        const [{ id: message, content, type }] = JSON.parse(data) as [{ id: string; content: string; type: string }];
        if (type === "AIMessageChunk") emittedTexts.set(message, (emittedTexts.get(message) ?? "") + content);
      }
      if (frames.length === 0) break;
    }
  }
  for (const { id, content } of messages) {
    if (emittedTexts.get(id) !== content)
      world.violation(
        "shown",
        `${tag}: ${JSON.stringify(content)} was shown as ${JSON.stringify(emittedTexts.get(id))}`,
      );
  }
  const rows = world.database.query("select count(*) as n from calls where ended_at is null and thread_id = ?", [
    thread_id,
  ]);
  if (Number(rows[0]?.n) > 0) world.violation("open", `a call of ${tag} never ended`);
}

let open: Promise<Database> | undefined;

export async function simulateDurable(seed: number): Promise<DurableOutcome> {
  open ??= Database.open();
  const database = await open;
  database.clear();
  const restore = makeSteady(seed);
  try {
    const world = new World(seed, database);
    const { scheduler, dice } = world;
    const machines = world.shared ? 2 : dice.between(1, 2);
    for (let i = 0; i < machines; i++) world.boot(i);
    const scripts = Array.from({ length: dice.between(1, 4) }, (_, i) => createScript(dice, `s${i}`));
    const threads = scripts.map(() => dice.uuid());
    let remaining = scripts.length;
    const troubleDice = new Dice(seed, "trouble");
    const talks = scripts.map((script, i): ClientThread => {
      const thread_id = threads[i] as string;
      return { thread_id, script, trouble: pickTrouble(troubleDice, script.tag), acted: null, second: null };
    });
    world.begin = (name) => checkBegin(world, talks, name);
    for (const talk of talks) {
      scheduler.at(dice.between(50, 2_000), null, () => void client(world, talk, () => remaining--));
    }
    const strike = (): void => {
      if (world.quiet) return;
      const machine = dice.below(machines);
      const life = world.lives[machine];
      const fate = dice.float();
      if (life?.alive && fate < 0.4) world.crash(machine, life, "crashes");
      else if (life?.alive && !life.paused && fate < 0.7) {
        scheduler.pause(life);
        scheduler.at(dice.between(100, 3 * LEASE_MS), null, () => scheduler.resume(life));
      } else if (life?.alive && life.service) {
        world.note(`${life.name} is told to stop`);
        void life.service.stop(dice.pick([0, 500])).then(() => world.crash(machine, life, "has stopped"));
      }
      scheduler.at(dice.between(200, 15_000), null, strike);
    };
    scheduler.at(dice.between(200, 10_000), null, strike);
    // A service reads the states that are checked.
    const ended = await scheduler.run(START + END_MS, () => remaining === 0 && world.up() !== null);
    if (!ended) {
      const rows = database.query(
        "select run_id, status, due_at, waiting_for, cancelled, call_id from runs where ended_at is null",
      );
      const alive = world.lives.map(({ name, alive, paused, service }) => [name, alive, paused, service !== null]);
      world.violation(
        "stuck",
        `${remaining} calls did not end: ${JSON.stringify([alive, rows], (_, value) => (typeof value === "bigint" ? Number(value) : value))}`,
      );
    }
    if (ended) {
      let checked = false;
      world.over = true;
      const all = (async () => {
        for (const talk of talks) {
          if (talk.trouble) await checkTrouble(world, talk);
          else {
            await check(world, talk);
            await checkSpans(world, talk);
          }
        }
        checked = true;
      })().catch((error: unknown) => {
        world.violation("check", String(error));
        checked = true;
      });
      await scheduler.run(scheduler.now + 60_000, () => checked);
      await Promise.race([all, Promise.resolve()]);
    }
    return { violations: world.violations, trace: world.trace, counts: world.counts };
  } finally {
    restore();
  }
}
