/** Runs of a version of their assistant: what they are made of, what repeats them, and what that costs. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import {
  createService,
  type FunctionJob,
  fromFunctions,
  type Json,
  type JsonObject,
  type Storage,
} from "../../../lib/mod.ts";
import { testClock, testService } from "../../suite/kit.ts";

const scope = { deployment: "default" };

/** Tells what the run reads. */
const AGENTS = {
  speaker: ({ context, config, attempt }: FunctionJob) => {
    const { tone = null } = context as JsonObject;
    return { told: [tone, config.tags ?? [], attempt] as never };
  },
  other: () => ({ told: ["other"] as never }),
};

describe("a run of a version", () => {
  it("has its graph, config, context and metadata, and those of the request over them", async () => {
    await using kit = await testService({ agents: AGENTS });
    const { assistants, runs, threads } = kit.service;
    const first = {
      graph_id: "speaker",
      context: { tone: "a", old: 1 },
      config: { tags: ["one"] },
      metadata: { v: 1 },
    };
    const { assistant_id } = await assistants.create(first);
    await assistants.update(assistant_id, { graph_id: "other", context: { tone: "b" }, metadata: { v: 2 } });
    const { thread_id } = await threads.create();
    const { run, result } = await runs.wait(thread_id, { assistant_id, assistant_version: 1, input: {} });
    assert.deepEqual(((await result) as JsonObject).told, ["a", ["one"], 1]);
    assert.deepEqual([run.assistant_version, run.metadata.v, run.metadata.graph_id], [1, 1, "speaker"]);
    const overriding = { assistant_id, assistant_version: 1, context: { tone: "c" }, input: {} };
    assert.deepEqual(((await (await runs.wait(null, overriding)).result) as JsonObject).told, ["c", ["one"], 1]);
    const active = await runs.wait(null, { assistant_id, input: {} });
    assert.deepEqual(((await active.result) as JsonObject).told, ["other"]);
    assert.equal(active.run.assistant_version, 2);
  });

  it("keeps it when it waits for its time, is retried and is run again", async () => {
    const clock = testClock();
    const storage = nodeSqlite(":memory:");
    const options = { storage, executor: fromFunctions(AGENTS), environment: { ...clock, log: () => {} } };
    const idle = await createService({ ...options, worker: { concurrency: 0 } });
    const { assistant_id } = await idle.assistants.create({ graph_id: "speaker", context: { tone: "a" } });
    const { thread_id } = await idle.threads.create();
    const run = await idle.runs.create(thread_id, { assistant_id, input: {} });
    assert.equal(run.assistant_version, 1);
    await idle.assistants.update(assistant_id, { context: { tone: "b" } });
    // A worker claims the run and dies.
    const terms = { token: crypto.randomUUID(), lease_until: clock.now() + 1_000 };
    const claim = await storage.claimRun(scope, { ...terms, graph_ids: ["speaker"], now: clock.now() });
    assert.ok(claim.kind === "claimed" && claim.claimed.run.assistant_version === 1);
    await clock.advance(1_001);
    const busy = await createService({ ...options, worker: { concurrency: 1 } });
    const { result } = await busy.runs.join(thread_id, run.run_id);
    assert.deepEqual(((await result) as JsonObject).told, ["a", [], 2]);
    const again = await busy.runs.rerun(run.run_id);
    assert.equal(again.assistant_version, 1);
    const repeated = await busy.runs.join(thread_id, again.run_id);
    assert.deepEqual(((await repeated.result) as JsonObject).told, ["a", [], 1]);
    await busy.stop(0);
    await idle.stop(0);
  });

  it("is not found for an assistant that was created again without it", async () => {
    await using kit = await testService({ agents: AGENTS });
    const { assistants, runs, threads } = kit.service;
    const { assistant_id } = await assistants.create({ graph_id: "speaker" });
    await assistants.update(assistant_id, { name: "Two" });
    const { thread_id } = await threads.create();
    const { run, result } = await runs.wait(thread_id, { assistant_id, input: {} });
    await result;
    await assistants.delete(assistant_id);
    await assistants.create({ graph_id: "speaker", assistant_id });
    assert.equal((await runs.get(thread_id, run.run_id)).assistant_version, 2);
    const message = `Assistant ${assistant_id} has no version 2`;
    await assert.rejects(runs.rerun(run.run_id), { code: "not_found", message });
  });

  it("is null for a run of an older release, which runs again with the active version", async () => {
    const storage = nodeSqlite(":memory:");
    /** The storage, with rows of runs as an older release has left them. */
    const old = new Proxy(storage, {
      get(target, name: string & keyof Storage) {
        if (name !== "getRun") return Reflect.get(target, name) as unknown;
        return async (...args: Parameters<Storage["getRun"]>) => {
          const { assistant_version: _, ...row } = { ...(await target.getRun(...args)) };
          return row;
        };
      },
    });
    await using kit = await testService({ storage: old, executor: fromFunctions(AGENTS) });
    const { assistants, runs, threads } = kit.service;
    const { assistant_id } = await assistants.create({ graph_id: "speaker" });
    await assistants.update(assistant_id, { name: "Two" });
    const { thread_id } = await threads.create();
    const { run, result } = await runs.wait(thread_id, { assistant_id, assistant_version: 1, input: {} });
    await result;
    assert.equal((await runs.get(thread_id, run.run_id)).assistant_version, null);
    assert.equal((await runs.rerun(run.run_id)).assistant_version, 2);
  });

  it("may be one that another process has just created", async () => {
    const storage = nodeSqlite(":memory:");
    const options = { storage, executor: fromFunctions(AGENTS), environment: { log: () => {} } };
    const [here, there] = [
      await createService(options),
      await createService({ ...options, worker: { concurrency: 0 } }),
    ];
    const { assistant_id } = await here.assistants.create({ graph_id: "speaker", context: { tone: "a" } });
    const run = async (assistant_version?: number): Promise<unknown> => {
      const version = assistant_version === undefined ? {} : { assistant_version };
      const { result } = await here.runs.wait(null, { assistant_id, ...version, input: {} });
      return ((await result) as JsonObject).told;
    };
    assert.deepEqual(await run(), ["a", [], 1]);
    await there.assistants.update(assistant_id, { context: { tone: "b" } });
    await there.assistants.update(assistant_id, { context: { tone: "c" }, activate: false });
    assert.deepEqual(
      [await run(2), await run(3), await run()],
      [
        ["b", [], 1],
        ["c", [], 1],
        ["b", [], 1],
      ],
    );
    await here.stop(0);
    await there.stop(0);
  });
});

/** Counts the calls of each operation. */
function countCalls(storage: Storage): { readonly storage: Storage; readonly calls: Record<string, number> } {
  const calls: Record<string, number> = {};
  const counting = new Proxy(storage, {
    get(target, name: string & keyof Storage) {
      const member = Reflect.get(target, name) as unknown;
      if (typeof member !== "function") return member;
      return (...args: unknown[]) => {
        calls[name] = (calls[name] ?? 0) + 1;
        return Reflect.apply(member, target, args) as unknown;
      };
    },
  });
  return { storage: counting, calls };
}

describe("the version of a run", () => {
  it("costs one read if it is not the active one, and none otherwise", async () => {
    const { storage, calls } = countCalls(nodeSqlite(":memory:"));
    await using kit = await testService({ storage, executor: fromFunctions(AGENTS) });
    const { assistants, runs } = kit.service;
    const { assistant_id } = await assistants.create({ graph_id: "speaker" });
    await assistants.update(assistant_id, { name: "Two" });
    const run = async (field: object): Promise<readonly [versions: number, assistants: number]> => {
      const before = [calls.getAssistantVersion ?? 0, calls.getAssistant ?? 0] as const;
      await (await runs.wait(null, { assistant_id, ...field, input: {} })).result;
      return [(calls.getAssistantVersion ?? 0) - before[0], (calls.getAssistant ?? 0) - before[1]];
    };
    await run({});
    assert.deepEqual(
      [await run({}), await run({ assistant_version: 2 }), await run({ assistant_version: 1 })],
      [
        [0, 0],
        [0, 0],
        [1, 0],
      ],
    );
  });
});

describe("an update with activate: false", () => {
  it("returns the version, and leaves the active one as it is", async () => {
    const clock = testClock();
    await using kit = await testService({ agents: AGENTS, environment: clock });
    const { assistants, runs } = kit.service;
    const { assistant_id } = await assistants.create({ graph_id: "speaker", context: { tone: "a" }, name: "One" });
    const active = await assistants.get(assistant_id);
    await clock.advance(1_000);
    const draft = await assistants.update(assistant_id, { context: { tone: "b" }, activate: false });
    const updated_at = new Date(clock.now()).toISOString();
    assert.deepEqual(draft, { ...active, version: 2, context: { tone: "b" }, updated_at });
    assert.deepEqual(await assistants.get(assistant_id), active);
    assert.deepEqual((await assistants.search({ name: "One" })).items, [active]);
    const versions = await assistants.versions(assistant_id);
    assert.deepEqual(
      versions.map(({ version, context }) => [version, context.tone]),
      [
        [2, "b"],
        [1, "a"],
      ],
    );
    const tell = async (field: object): Promise<unknown> => {
      const { result } = await runs.wait(null, { assistant_id, ...field, input: {} });
      return ((await result) as { readonly told: readonly Json[] } & JsonObject).told[0];
    };
    assert.deepEqual([await tell({}), await tell({ assistant_version: 2 })], ["a", "b"]);
    const next = await assistants.update(assistant_id, { name: "Three" });
    assert.deepEqual([next.version, next.context, next.name], [3, { tone: "a" }, "Three"]);
    assert.equal((await assistants.setLatest(assistant_id, 2)).context.tone, "b");
    assert.equal(await tell({}), "b");
  });

  it("gives each of several at once a number", async () => {
    await using kit = await testService({ agents: AGENTS });
    const { assistants } = kit.service;
    const { assistant_id } = await assistants.create({ graph_id: "speaker" });
    const drafts = await Promise.all(
      Array.from({ length: 10 }, (_, n) => assistants.update(assistant_id, { context: { n }, activate: false })),
    );
    assert.deepEqual(
      drafts.map(({ version }) => version).sort((a, b) => a - b),
      [2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
    );
    for (const { version, context } of drafts) {
      const stored = (await assistants.versions(assistant_id, { limit: 20 })).find((row) => row.version === version);
      assert.deepEqual(stored?.context, context);
    }
    assert.equal((await assistants.get(assistant_id)).version, 1);
  });
});
