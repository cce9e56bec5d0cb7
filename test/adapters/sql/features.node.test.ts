/** Checks the cost of features: a run without features sends none of their statements. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { RETENTION_TABLES } from "../../../adapters/sql/features.ts";
import { type SqlStatement, sqlStorage } from "../../../adapters/sql/mod.ts";
import { nodeSqliteDriver } from "../../../adapters/sqlite/node.ts";
import type { RunCreate, ServiceOptions } from "../../../lib/mod.ts";
import type { Storage } from "../../../lib/storage/mod.ts";
import { testClock, testService } from "../../suite/kit.ts";

/** Returns the name of a statement, such as `insert runs` or `update threads`. */
function getStatementName({ sql }: SqlStatement): string {
  const [, verb, table] =
    /^\s*(?:with\b[\s\S]*?)?\b(insert|update|delete)\s+(?:into\s+|from\s+)?"?(\w+)/.exec(sql) ?? [];
  return `${verb} ${table}`;
}

/** Returns the names of the statements in the two batches of a run: its creation and its end. */
async function recordStatements(
  on: "thread" | "stateless",
  runOptions: Partial<RunCreate> = {},
  options: Pick<ServiceOptions, "traces"> = {},
): Promise<readonly string[][]> {
  const driver = nodeSqliteDriver(":memory:");
  let batches: string[][] = [];
  const storage = sqlStorage({
    ...driver,
    async batch(statements, lock_keys) {
      batches.push(statements.map(getStatementName));
      return await driver.batch(statements, lock_keys);
    },
  });
  await using kit = await testService({
    storage,
    agents: {
      async *echo({ spend }) {
        if (runOptions.metadata?.["spends"]) spend({ tokens_in: 1 });
        yield { done: true };
      },
    },
    ...options,
    public_base_url: "https://agents.example",
    webhooks: { transport: { resolve: () => new Promise(() => {}), send: () => new Promise(() => {}) } },
  });
  const { threads, runs } = kit.service;
  const thread_id = on === "thread" ? (await threads.create()).thread_id : null;
  // The first run waits for the worker's lock.
  await (await runs.wait(null, { assistant_id: "echo", input: {} })).result;
  batches = [];
  const { result } = await runs.wait(thread_id, { assistant_id: "echo", input: {}, ...runOptions });
  await result;
  return batches.filter((names) => names.some((name) => / runs$/.test(name)));
}

const TRACED = ["insert usage_hourly", "insert traces"];

describe("the statements of a run", () => {
  it("without features are those of the core, and its trace", async () => {
    const [created, ended, ...otherBatches] = await recordStatements("stateless");
    assert.deepEqual(otherBatches, []);
    assert.deepEqual(created, ["insert threads", "insert runs", ...TRACED]);
    assert.deepEqual(ended, ["insert run_traces", "update threads", "update runs"]);
    const [onThread, end, ...laterBatches] = await recordStatements("thread");
    assert.deepEqual(laterBatches, []);
    assert.deepEqual(onThread, ["update threads", "delete labels", "insert labels", "insert runs", ...TRACED]);
    const saved = ["insert channel_values", "insert checkpoints", "insert thread_events"];
    assert.deepEqual(end, [
      "insert run_traces",
      ...saved,
      "update threads",
      "update runs",
      "delete labels",
      "insert labels",
    ]);
  });

  it("without traces are the same but for the row of the trace", async () => {
    for (const on of ["stateless", "thread"] as const) {
      const [created, ended = []] = await recordStatements(on);
      const [bareCreated, bareEnded] = await recordStatements(on, {}, { traces: { record: "none" } });
      assert.deepEqual(bareCreated, created);
      assert.deepEqual(["insert run_traces", ...(bareEnded ?? [])], ended);
    }
  });

  it("with a feature are those of the core and the statements of the feature", async () => {
    const [created = [], ended = []] = await recordStatements("stateless");
    const [asking = [], tokenBatches = []] = await recordStatements("stateless", { feedback_keys: ["good"] });
    assert.deepEqual(asking, [...created.slice(0, 2), "insert feedback_tokens", ...created.slice(2)]);
    const [trace, thread, run] = ended;
    assert.deepEqual(tokenBatches, [trace, thread, "update feedback_tokens", run]);
    const [hooked, deliveryBatches] = await recordStatements("stateless", { webhook: "https://hooks.example/" });
    assert.deepEqual(hooked, created);
    assert.deepEqual(deliveryBatches, [trace, thread, "insert webhook_deliveries", run]);
    const [, spent] = await recordStatements("stateless", { metadata: { spends: true } });
    assert.deepEqual(spent, ["update traces", ...ended]);
  });
});

it("have an age in the rows of each feature that retention may delete", async () => {
  const storage = sqlStorage(nodeSqliteDriver(":memory:"));
  const swept = Promise.withResolvers<readonly string[]>();
  const deleteExpired: Storage["deleteExpired"] = async (_scope, { features }) => {
    if (features) swept.resolve(Object.keys(features));
    return 0;
  };
  const clock = testClock();
  await using _kit = await testService({
    storage: { ...storage, deleteExpired },
    agents: { echo: () => "" },
    environment: clock,
  });
  await clock.advance("5s");
  assert.deepEqual(
    await swept.promise,
    RETENTION_TABLES.map(({ name }) => name),
  );
});
