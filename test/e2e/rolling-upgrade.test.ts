/** Rolling upgrades: what a newer version adds to the database does not disturb the older processes that run on it. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { libsqlDriver } from "../../adapters/libsql/mod.ts";
import { postgresDriver } from "../../adapters/postgres/mod.ts";
import type { SqlDriver, SqlRow } from "../../adapters/sql/driver.ts";
import { sqlStorage } from "../../adapters/sql/mod.ts";
import { nodeSqliteDriver } from "../../adapters/sqlite/node.ts";
import { ConfigError, createService, type FunctionJob, fromFunctions } from "../../lib/mod.ts";
import { type TestService, testService } from "../suite/kit.ts";
import { startPostgres, type TestPostgres } from "../support/postgres-server.ts";
import { createTemporaryFolder, runtime } from "../support/programs.ts";
import { until } from "../support/until.ts";

let server: Promise<TestPostgres> | undefined;
after(async () => (await server)?.stop());

/** Databases by name. Each call of `open` opens a new connection. */
const PLACES: Readonly<Record<string, () => Promise<{ open(): SqlDriver } & Disposable>>> = {
  async "a SQLite file"() {
    const folder = createTemporaryFolder();
    return { ...folder, open: () => nodeSqliteDriver(join(folder.path, "rolling.db")) };
  },
  async "a libSQL file"() {
    const folder = createTemporaryFolder();
    return { ...folder, open: () => libsqlDriver({ url: `file:${join(folder.path, "rolling.db")}` }) };
  },
  async Postgres() {
    server ??= startPostgres();
    const { url } = await (await server).database();
    return { open: () => postgresDriver({ url }), [Symbol.dispose]() {} };
  },
};

const readRows = (driver: SqlDriver, sql: string): Promise<SqlRow[]> => driver.read({ sql, args: [] });

/** Makes the changes of a later minor version: new tables, optional columns and indexes. */
async function addEverywhere(driver: SqlDriver): Promise<void> {
  const list =
    driver.dialect === "sqlite"
      ? "select name from sqlite_master where type = 'table' and name not like 'sqlite_%'"
      : "select table_name as name from information_schema.tables where table_schema = current_schema()";
  const tables = (await readRows(driver, list)).map(({ name }) => String(name));
  assert.ok(tables.includes("runs") && tables.includes("greenroom_versions"));
  const [row] = await readRows(driver, "select max(version) as version from greenroom_versions");
  const steps = [
    "create table from_the_future (id text not null primary key)",
    ...tables
      .filter((table) => table !== "greenroom_versions")
      .flatMap((table) => [
        `alter table ${table} add column future text`,
        `alter table ${table} add column future_count integer not null default 0`,
        `create index ${table}_of_the_future on ${table} (future)`,
      ]),
    `insert into greenroom_versions (version) values (${Number(row?.version) + 1})`,
  ];
  await driver.batch(steps.map((sql) => ({ sql, args: [] })));
}

/** Most of what the service does; `mark` tells what it makes from what was there. */
async function use(kit: TestService, mark: string): Promise<void> {
  const { assistants, threads, runs, crons, store, feedback } = kit.service;
  const assistant = await assistants.create({ graph_id: "echo", metadata: { team: "a" } });
  await assistants.update(assistant.assistant_id, { metadata: { mark } });
  assert.equal((await assistants.search({ metadata: { mark } })).total, 1);
  const { thread_id } = await threads.create({ metadata: { mark } });
  for (const multitask_strategy of ["enqueue", "interrupt", "rollback"] as const) {
    const wait = await runs.wait(thread_id, {
      assistant_id: assistant.assistant_id,
      input: { messages: [{ role: "user", content: multitask_strategy }] },
      multitask_strategy,
      feedback_keys: ["score"],
    });
    await wait.result;
    await until(async () => (await runs.get(thread_id, wait.run.run_id)).status === "success", "a run succeeds");
  }
  assert.equal((await threads.history(thread_id)).length > 3, true);
  await threads.updateState(thread_id, { values: { messages: [{ role: "user", content: "by hand" }] } });
  const copy = await threads.copy(thread_id);
  assert.deepEqual((await threads.state(copy.thread_id)).values, (await threads.state(thread_id)).values);
  assert.equal((await threads.search({ metadata: { mark } })).total, 2);
  const heldRun = await runs.create(thread_id, { assistant_id: "held", input: {} });
  await until(async () => (await runs.get(thread_id, heldRun.run_id)).status === "running", "it runs");
  await runs.cancel(thread_id, heldRun.run_id, { action: "rollback", wait: true });
  await assert.rejects(runs.get(thread_id, heldRun.run_id), { code: "not_found" });
  await threads.prune([copy.thread_id], "delete");
  await assert.rejects(threads.get(copy.thread_id), { code: "not_found" });
  const cron = await crons.create(null, { assistant_id: "echo", schedule: "0 0 1 1 *" });
  await crons.update(cron.cron_id, { schedule: "0 0 2 1 *" });
  await crons.delete(cron.cron_id);
  await store.put(["a", "b"], "key", { text: "value" });
  assert.deepEqual((await store.get(["a", "b"], "key"))?.value, { text: "value" });
  await store.delete(["a", "b"], "key");
  assert.ok(feedback);
  const { worker } = await kit.service.metrics();
  assert.ok(worker.started > 0);
  assert.deepEqual(await kit.service.ready(), { ok: true });
}

// Once is enough: what Postgres answers does not depend on who asks.
const places = Object.entries(PLACES).filter(([name]) => name !== "Postgres" || runtime === "node");

for (const [name, createPlace] of places) {
  describe(`${name} with additions of a newer version`, () => {
    it("serves the older process, which completes its runs and claims new ones", async () => {
      using at = await createPlace();
      const gates = { first: Promise.withResolvers<void>(), second: Promise.withResolvers<void>() };
      const agents = {
        echo: async ({ messages }: FunctionJob) => ({ messages: [{ type: "ai", content: `${messages.length}` }] }),
        async *held({ signal }: FunctionJob) {
          yield { held: true };
          await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
        },
        async *slow({ emit }: FunctionJob) {
          emit({ step: 1 });
          yield { messages: [{ type: "ai", content: "before" }] };
          gates.first.resolve();
          await gates.second.promise;
          emit({ step: 2 });
          yield { messages: [{ type: "ai", content: "after" }] };
        },
      };
      await using kit = await testService({
        storage: sqlStorage(at.open()),
        agents,
        public_base_url: "http://greenroom",
      });
      const { runs, threads } = kit.service;
      await use(kit, "before");
      const { thread_id } = await threads.create();
      const request = { assistant_id: "slow", input: {}, stream_mode: ["custom" as const], stream_resumable: true };
      const { run, frames } = await runs.stream(thread_id, request);
      const events: string[] = [];
      const reading = (async () => {
        for await (const { event } of frames) events.push(event);
      })();
      const waiting = await runs.create(thread_id, request);
      await gates.first.promise;

      const newer = at.open();
      try {
        await addEverywhere(newer);
        gates.second.resolve();
        await reading;
        assert.deepEqual(events, ["metadata", "custom", "custom", "end"]);
        for (const { run_id } of [run, waiting]) {
          await until(async () => (await runs.get(thread_id, run_id)).status === "success", "it succeeds");
        }
        await use(kit, "after");
        const rows = await readRows(newer, "select count(*) as n from runs where future is null and future_count = 0");
        assert.ok(Number(rows[0]?.n) > 6);

        // A process of the older version that starts only now cannot know what it must not touch.
        const late = sqlStorage(at.open());
        const error = await createService({ storage: late, executor: fromFunctions(agents) }).then(
          () => assert.fail("it started"),
          (thrown: unknown) => thrown,
        );
        await late.close();
        assert.ok(error instanceof ConfigError, String(error));
        assert.match(
          error.message,
          /schema version \d+, this Greenroom knows versions up to \d+; use a newer Greenroom/,
        );
        // The one that runs takes no harm from that.
        await use(kit, "last");
      } finally {
        await newer.close();
      }
    });
  });
}
