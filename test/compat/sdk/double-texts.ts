/** A second text while the first one is answered: the four strategies, on every way to create a run. */
import assert from "node:assert/strict";
import type { Client } from "langgraph-sdk-2";
import type { JsonObject } from "../../../lib/json.ts";
import {
  assertRefused,
  type Bench,
  collect,
  createHumanInput,
  createThread,
  FAMILIES,
  type Frame,
  filterData,
  listEventNames,
  readContents,
  readContentsOrNone,
  type Suite,
  until,
} from "./bench.ts";

/** The state of the earlier runs of the thread when the new one comes. */
interface Stage {
  readonly name: string;
  /** Gives the runs, oldest first; their texts begin with `text`. */
  make(at: Bench, thread_id: string, family: (typeof FAMILIES)[number], text: string): Promise<string[]>;
  /** Returns the contents of the messages that a thread keeps of them when they are interrupted. */
  readonly interruptedContents: (text: string) => string[];
  /** Returns the contents when they may end by themselves. */
  readonly done: (text: string) => string[];
}

const stages: readonly Stage[] = [
  {
    name: "that is to start later",
    async make({ client }, id, { wait }, text) {
      return [(await client.runs.create(id, wait, { input: createHumanInput(text), afterSeconds: 3600 })).run_id];
    },
    interruptedContents: () => [],
    done: () => [],
  },
  {
    name: "that runs",
    async make({ client, gates }, id, { wait }, text) {
      const { run_id } = await client.runs.create(id, wait, { input: createHumanInput(text) });
      await gates.reached(text);
      return [run_id];
    },
    interruptedContents: (text) => [text],
    done: (text) => [text, `waited for ${text}`],
  },
  {
    name: "that runs, with others behind it",
    async make({ client, gates }, id, { wait, half }, text) {
      const runs = [await client.runs.create(id, wait, { input: createHumanInput(text) })];
      for (const suffix of [" b", " c"])
        runs.push(await client.runs.create(id, half, { input: createHumanInput(text + suffix) }));
      await gates.reached(text);
      return runs.map((run) => run.run_id);
    },
    interruptedContents: (text) => [text],
    done: (text) => [
      text,
      `waited for ${text}`,
      ...[`${text} b`, `${text} c`].flatMap((laterText) => [
        laterText,
        `began ${laterText}`,
        `waited for ${laterText}`,
      ]),
    ],
  },
  {
    name: "that has finished a step",
    async make({ client, gates }, id, { half }, text) {
      const { run_id } = await client.runs.create(id, half, { input: createHumanInput(text), durability: "sync" });
      await gates.reached(text);
      // Its step is stored: what the thread has while it runs shows it.
      await until(async () => readContentsOrNone((await client.threads.getState(id)).values).includes(`began ${text}`));
      return [run_id];
    },
    interruptedContents: (text) => [text, `began ${text}`],
    done: (text) => [text, `began ${text}`, `waited for ${text}`],
  },
];

type Strategy = "reject" | "enqueue" | "interrupt" | "rollback";
type Text = (client: Client, id: string, graph: string, multitaskStrategy: Strategy) => Promise<string[]>;

/** The ways to send the new text; each gives the contents of the thread when its run has ended. */
const ways: Readonly<Record<string, Text>> = {
  async "by create"(client, id, graph, multitaskStrategy) {
    const { run_id } = await client.runs.create(id, graph, { input: createHumanInput("new"), multitaskStrategy });
    return readContents(await client.runs.join(id, run_id));
  },
  async "by stream"(client, id, graph, multitaskStrategy) {
    const frames = await collect(client.runs.stream(id, graph, { input: createHumanInput("new"), multitaskStrategy }));
    assert.deepEqual(listEventNames(frames).slice(-2), ["values", "end"]);
    return readContents(filterData(frames, "values").at(-1));
  },
  async "by wait"(client, id, graph, multitaskStrategy) {
    return readContents(await client.runs.wait(id, graph, { input: createHumanInput("new"), multitaskStrategy }));
  },
};

/** Starts to read a run; where it shows something already, resolves when that is there. Gives all its frames. */
async function joined(client: Client, id: string, run_id: string, shows: boolean): Promise<Promise<Frame[]>[]> {
  const first = Promise.withResolvers<void>();
  const frames = collect(client.runs.joinStream(id, run_id, { lastEventId: "-1" }), () => first.resolve());
  // A run that has nothing to show may be gone when the stream is opened, before the caller looks.
  frames.catch(() => {});
  if (shows) await first.promise;
  return [frames];
}

export function doubleTexts({ describe, it, name, bench }: Suite): void {
  for (const family of FAMILIES) {
    const { kind, graph } = family;
    const base = ["zero", "You said: zero"];
    const fresh = ["new", "You said: new"];

    /** Tests all ways concurrently, each on its own threads. */
    async function all(
      at: Bench,
      stage: Stage,
      test: (scene: { id: string; text: string; runs: string[]; history: number; send: Text }) => Promise<void>,
    ): Promise<void> {
      const scenes = Object.entries(ways).map(async ([text, send]) => {
        const id = await createThread(at.client);
        await at.client.runs.wait(id, graph, { input: createHumanInput("zero") });
        const history = (await at.client.threads.getHistory(id, { limit: 100 })).length;
        const runs = await stage.make(at, id, family, text);
        await test({ id, text, runs, history, send });
      });
      await Promise.all(scenes);
    }

    describe(`${name}: double texts to a ${kind}`, () => {
      for (const stage of stages) {
        it(`rollback: a run ${stage.name} leaves nothing`, async () => {
          await using at = await bench();
          const { client, gates } = at;
          await all(at, stage, async ({ id, text, runs, history, send }) => {
            const [reader] = await joined(client, id, runs[0] as string, stage.interruptedContents(text).length > 0);
            const first = new Set((await client.runs.list(id)).map((run) => run.run_id));
            const values = await send(client, id, graph, "rollback");
            assert.deepEqual(values, [...base, ...fresh]);
            for (const run_id of runs) {
              await assertRefused(client.runs.get(id, run_id), 404, /not found/);
              await assertRefused(client.runs.join(id, run_id), 404, /not found/);
              await assertRefused(collect(client.runs.joinStream(id, run_id)), 404, /not found/);
              await assertRefused(client.runs.cancel(id, run_id), 404, /not found/);
              await assertRefused(client.runs.delete(id, run_id), 404, /not found/);
            }
            const remainingRuns = await client.runs.list(id);
            assert.equal(remainingRuns.length, 2);
            assert.ok(remainingRuns.every(({ run_id }) => !runs.includes(run_id)));
            assert.equal(remainingRuns.filter(({ run_id }) => first.has(run_id)).length, 1);
            const states = await client.threads.getHistory(id, { limit: 100 });
            assert.equal(states.length, history + 3);
            assert.ok(!JSON.stringify(states).includes(text), "something of it is left");
            const { status, values: storedValues } = await client.threads.get(id);
            assert.deepEqual([status, readContents(storedValues)], ["idle", values]);
            // One that had nothing to show may have been joined too late.
            const frames = await (stage.interruptedContents(text).length > 0 ? reader : reader?.catch(() => null));
            if (!frames) return;
            assert.deepEqual(listEventNames(frames).slice(-2), ["error", "end"]);
            assert.equal(filterData(frames, "error")[0]?.error, "RunRolledBack");
            assert.equal(filterData(frames, "end")[0]?.status, "rollback");
            // Whatever was still at work on it can write nothing.
            gates.open(text, `${text} b`, `${text} c`);
            assert.deepEqual(readContents(await client.runs.wait(id, graph, { input: createHumanInput("on") })), [
              ...values,
              "on",
              "You said: on",
            ]);
          });
        });

        it(`interrupt: a run ${stage.name} keeps its finished steps`, async () => {
          await using at = await bench();
          const { client } = at;
          await all(at, stage, async ({ id, text, runs, history, send }) => {
            const values = await send(client, id, graph, "interrupt");
            assert.deepEqual(values, [...base, ...stage.interruptedContents(text), ...fresh]);
            for (const run_id of runs) assert.equal((await client.runs.get(id, run_id)).status, "interrupted");
            assert.equal((await client.runs.list(id)).length, runs.length + 2);
            const states = await client.threads.getHistory(id, { limit: 100 });
            assert.ok(states.length >= history + 3 + stage.interruptedContents(text).length);
            assert.deepEqual(readContentsOrNone(states[0]?.values), values);
            assert.equal((await client.threads.get(id)).status, "idle");
            if (stage.interruptedContents(text).length > 0) assert.equal(await at.gates.stopped(text), "cancelled");
          });
        });

        it(`enqueue: a run ${stage.name} goes first`, async () => {
          await using at = await bench();
          const { client, gates } = at;
          await all(at, stage, async ({ id, text, runs, send }) => {
            const pendingSend = send(client, id, graph, "enqueue");
            gates.open(text, `${text} b`, `${text} c`);
            assert.deepEqual(await pendingSend, [...base, ...stage.done(text), ...fresh]);
            const status = stage.done(text).length > 0 ? "success" : "pending";
            for (const run_id of runs) assert.equal((await client.runs.get(id, run_id)).status, status);
          });
        });

        it(`reject: a run ${stage.name} does not change`, async () => {
          await using at = await bench();
          const { client, gates } = at;
          await all(at, stage, async ({ id, text, runs, send }) => {
            const before = await client.runs.list(id);
            await assertRefused(send(client, id, graph, "reject"), 409, /already running a task/);
            assert.deepEqual(
              (await client.runs.list(id)).map(({ run_id, status }) => [run_id, status]),
              before.map(({ run_id, status }) => [run_id, status]),
            );
            gates.open(text, `${text} b`, `${text} c`);
            if (stage.done(text).length === 0) return;
            const values = await client.runs.join(id, runs.at(-1) as string);
            assert.deepEqual(readContents(values), [...base, ...stage.done(text)]);
          });
        });
      }

      it("answer a pending interrupt, whatever the strategy", async () => {
        await using at = await bench();
        const { client } = at;
        for (const multitaskStrategy of ["reject", "enqueue", "interrupt", "rollback"] as const) {
          const id = await createThread(client);
          await client.runs.wait(id, kind === "function" ? "ask" : "outer", { input: {} });
          assert.equal((await client.threads.get(id)).status, "interrupted");
          const { run_id } = await client.runs.create(id, kind === "function" ? "ask" : "outer", {
            command: { resume: "yes" },
            multitaskStrategy,
          });
          await client.runs.join(id, run_id);
          // A run that had asked was over: no strategy takes it away.
          assert.equal((await client.runs.list(id)).length, 2);
          assert.equal((await client.threads.get(id)).status, "idle");
        }
      });
    });
  }

  describe(`${name}: a stateless text`, () => {
    it("changes no other run, whatever its strategy", async () => {
      await using at = await bench();
      const { client, gates } = at;
      const first = client.runs.wait(null, "wait", { input: createHumanInput("a") });
      await gates.reached("a");
      for (const multitaskStrategy of ["reject", "enqueue", "interrupt", "rollback"] as const) {
        const payload = { input: createHumanInput("b"), multitaskStrategy } as { input: JsonObject };
        assert.deepEqual(readContents(await client.runs.wait(null, "agent", payload)), ["b", "You said: b"]);
      }
      gates.open("a");
      assert.deepEqual(readContents(await first), ["a", "waited for a"]);
    });
  });
}
