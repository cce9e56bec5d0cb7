/** A step of the schema keeps everything in the database, takes effect once and as a whole, and an empty database gets all steps at once. */

import assert from "node:assert/strict";
import { copyFileSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, it } from "node:test";
import type { SqlDriver } from "../../../adapters/sql/driver.ts";
import { sqlStorage } from "../../../adapters/sql/mod.ts";
import { type Schema, schema } from "../../../adapters/sql/schema/mod.ts";
import { nodeSqliteDriver } from "../../../adapters/sqlite/node.ts";
import { ConfigError } from "../../../lib/errors.ts";
import type { JsonObject } from "../../../lib/json.ts";
import type { AssistantRow, SavedCheckpoint, Storage, ThreadRow } from "../../../lib/storage/mod.ts";
import { countAssistants, countCrons, countThreads } from "../../suite/counts.ts";
import { createNewest, createSteps, migrateTo, planted, plantedStep } from "./injected-migration.ts";

const here = { deployment: "default" };
/** The newest real version; the planted step leads to the next one. */
const NEWEST = schema.steps.length + 1;
const VERSIONS = Array.from({ length: NEWEST }, (_, i) => i + 1);

/** Creates an assistant, a thread with a state and one without, a run that has ended and a pending one. */
async function fill(storage: Storage): Promise<void> {
  const content = { graph_id: "g", name: "A", description: null, config: {}, context: {}, metadata: { team: "blue" } };
  const { assistant } = await storage.createAssistant(here, { assistant_id: "a", ...content }, 1);
  const metadata = { owner: "ada", tags: ["x", "y"] };
  const checkpoint = (checkpoint_id: string, parent_id: string | null, n: string): SavedCheckpoint => ({
    ns: "",
    checkpoint_id,
    parent_id,
    payload: { type: "json", data: "{}" },
    metadata: {},
    versions: { n: checkpoint_id },
    values: [{ channel: "n", version: checkpoint_id, type: "json", data: n }],
    created_at: 1,
  });
  const progress = { checkpoints: [checkpoint("c1", null, "1"), checkpoint("c2", "c1", "2")], writes: [] };
  const state = { graph_id: "g", progress, head: "c2", scalars: { n: 2 } };
  await storage.createThread(here, { thread_id: "t", metadata, config: {}, stateless: false, state }, 2);
  await storage.createThread(here, { thread_id: "new", metadata, config: {}, stateless: false }, 3);
  for (const run_id of ["r1", "r2"]) {
    const { revision } = (await storage.getThread(here, "t")) as ThreadRow;
    const outcome = await storage.createRun(here, {
      run: {
        run_id,
        thread_id: "t",
        assistant_id: "a",
        graph_id: "g",
        metadata: {},
        kwargs: { config: {}, context: {} },
        multitask_strategy: "enqueue",
        stateless: false,
        resumable: true,
        created_at: 3,
      },
      expected: { assistant_revision: assistant.revision, thread_revision: revision },
      now: 3,
    });
    assert.equal(outcome.kind, "created");
  }
  const trace = { workspace_id: "w", project_id: "p", counted: true };
  const outcome = await storage.claimRun(here, { graph_ids: ["g"], now: 3, token: "k1", lease_until: 50, trace });
  assert.ok(outcome.kind === "claimed" && outcome.claimed.run.run_id === "r1");
  const finished = await storage.finishRun(here, outcome.claimed.lease, {
    claims: 1,
    status: "success",
    error: null,
    result: null,
    progress: {
      checkpoints: [],
      writes: [],
      frames: { first_id: 1, list: [{ event: "end", data: "{}" }] },
    },
    discard: false,
    thread: { head: null, status: "idle", interrupts: {}, error: null },
    end_frame: 1,
    now: 4,
  });
  assert.ok(finished);
}

/** Calls `body` with the path of a database of the newest real version. */
async function withNewest(body: (path: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "greenroom-migration-"));
  try {
    const path = join(folder, "newest.db");
    const storage = sqlStorage(nodeSqliteDriver(path));
    await storage.migrate();
    await fill(storage);
    await storage.close();
    await body(path);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Calls `body` with a storage on such a database after the planted step. */
function withInjectedStep(body: (storage: Storage) => Promise<void>): Promise<void> {
  return withNewest(async (path) => {
    const driver = nodeSqliteDriver(path);
    const storage = sqlStorage(driver);
    try {
      await migrateTo(driver, planted);
      await migrateTo(driver, planted);
      await body(storage);
    } finally {
      await storage.close();
    }
  });
}

const readVersions = async (driver: SqlDriver): Promise<unknown[]> =>
  (await driver.read({ sql: "select version from greenroom_versions order by version", args: [] })).map(
    ({ version }) => version,
  );

describe("a database after a step", () => {
  const threads = async (storage: Storage, metadata: JsonObject, values?: JsonObject): Promise<string> => {
    const query = { metadata, ...(values && { values }), sort_by: "created_at", sort_order: "asc" } as const;
    const { rows, total } = await storage.searchThreads(here, { ...query, limit: 10, offset: 0 });
    assert.equal(total, rows.length);
    assert.equal(await countThreads(storage, here, query), total);
    return rows.map((row) => row.thread_id).join();
  };
  const assistants = async (storage: Storage, metadata: JsonObject): Promise<string> => {
    const page = { limit: 10, offset: 0, sort_by: "created_at", sort_order: "asc" } as const;
    return (await storage.searchAssistants(here, { metadata, ...page })).rows.map((row) => row.assistant_id).join();
  };

  it("keeps its runs and their frames, and accepts new ones", () =>
    withInjectedStep(async (storage) => {
      const runs = await storage.listRuns(here, "t", { limit: 10, offset: 0 });
      assert.deepEqual(
        runs.map(({ run_id, status, claim_number }) => [run_id, status, claim_number]),
        [
          ["r2", "pending", 0],
          ["r1", "success", 1],
        ],
      );
      assert.deepEqual(
        (await storage.readFrames(here, "r1", 0)).map(({ id, event }) => [id, event]),
        [[1, "end"]],
      );
      const claim = { graph_ids: ["g"], now: 5, token: "k2", lease_until: 50 };
      const outcome = await storage.claimRun(here, claim);
      assert.ok(outcome.kind === "claimed");
      assert.deepEqual([outcome.claimed.run.run_id, outcome.claimed.run.claim_number], ["r2", 2]);
      assert.equal((await storage.getTrace("r1"))?.started_at, 3);
    }));

  it("finds its threads and assistants by their metadata, as before", () =>
    withInjectedStep(async (storage) => {
      assert.equal(await threads(storage, { owner: "ada" }), "t,new");
      assert.equal(await threads(storage, { tags: ["y"] }), "t,new");
      assert.equal(await threads(storage, { owner: "eve" }), "");
      assert.deepEqual(
        [await assistants(storage, { team: "blue" }), await assistants(storage, { team: "red" })],
        ["a", ""],
      );
      const filter = [{ key: "owner", equals: "ada" }];
      const page = { limit: 10, offset: 0, sort_by: "thread_id", sort_order: "asc" } as const;
      assert.equal((await storage.searchThreads({ ...here, filter }, page)).total, 2);
      // Rows written after the step are found beside those that the step has moved.
      await storage.updateThread(here, "t", () => ({ metadata: { owner: "eve" } }), 9);
      await storage.createThread(
        here,
        { thread_id: "u", metadata: { owner: "ada" }, config: {}, stateless: false },
        10,
      );
      assert.deepEqual(
        [await threads(storage, { owner: "ada" }), await threads(storage, { owner: "eve" })],
        ["new,u", "t"],
      );
      assert.equal(await threads(storage, { tags: ["y"] }), "new");
      assert.equal(await storage.deleteThread(here, "new"), true);
      assert.equal(await threads(storage, { owner: "ada" }), "u");
    }));

  it("may hold any values in states for which the step could not create index entries", () =>
    withInjectedStep(async (storage) => {
      assert.equal(await threads(storage, {}, { n: 7 }), "t");
      await storage.stopRuns(here, { thread_id: "t", run_ids: ["r2"] }, "interrupt", 9);
      const state = { graph_id: "g", progress: { checkpoints: [], writes: [] }, head: "c1", scalars: { n: 1 } };
      assert.equal(await storage.writeState(here, "t", { ...state, expected_head: "c2" }, 10), "written");
      assert.deepEqual([await threads(storage, {}, { n: 1 }), await threads(storage, {}, { n: 2 })], ["t", ""]);
    }));

  it("prunes and expires its threads", () =>
    withInjectedStep(async (storage) => {
      assert.deepEqual(await storage.pruneThreads(here, { max_expired: 10 }, 9e12), []);
      const thread = (await storage.getThread(here, "t")) as ThreadRow;
      assert.deepEqual([thread.ttl, thread.head, thread.status], [null, "c2", "busy"]);
      await storage.stopRuns(here, { thread_id: "t", run_ids: ["r2"] }, "rollback", 9);
      assert.deepEqual(await storage.pruneThreads(here, { thread_ids: ["t"], strategy: "keep_latest" }, 10), ["t"]);
      const checkpoints = await storage.listCheckpoints(here, "t", { limit: 10 });
      assert.deepEqual(
        checkpoints.map(({ checkpoint_id, parent_id, values }) => [checkpoint_id, parent_id, values[0]?.data]),
        [["c2", null, "2"]],
      );
      const ttl = { strategy: "delete", ttl_ms: 5 } as const;
      await storage.updateThread(here, "t", ({ metadata }) => ({ metadata, ttl }), 20);
      assert.deepEqual(await storage.pruneThreads(here, { max_expired: 10 }, 24), []);
      assert.deepEqual(await storage.pruneThreads(here, { max_expired: 10 }, 25), ["t"]);
      assert.equal(await threads(storage, { owner: "ada" }), "new");
    }));

  it("accepts crons and runs of users", () =>
    withInjectedStep(async (storage) => {
      const options = { on_run_completed: null, timezone: null, end_time: null, enabled: true, next_run_date: 100 };
      const mine = { payload: {}, metadata: { x: 1 }, user_id: null, auth_user: { identity: "ada" } };
      const cron = { cron_id: "k", assistant_id: "a", thread_id: "t", schedule: "* * * * *", ...options, ...mine };
      assert.equal((await storage.createCron(here, cron, 10)).kind, "created");
      assert.equal(await countCrons(storage, here, { metadata: { x: 1 } }), 1);
      const assistant = (await storage.getAssistant(here, "a")) as AssistantRow;
      const thread = (await storage.getThread(here, "t")) as ThreadRow;
      const run = {
        run_id: "r3",
        thread_id: "t",
        assistant_id: "a",
        graph_id: "g",
        metadata: {},
        kwargs: {},
        multitask_strategy: "enqueue",
        stateless: false,
        resumable: false,
        created_at: 11,
        auth_user: { identity: "ada" },
      } as const;
      const expected = { assistant_revision: assistant.revision, thread_revision: thread.revision };
      assert.equal((await storage.createRun(here, { run, expected, now: 11 })).kind, "created");
      assert.deepEqual((await storage.getRun(here, "r3"))?.auth_user, { identity: "ada" });
    }));

  it("has the new columns and rows, and is rejected by the older version", () =>
    withNewest(async (path) => {
      const driver = nodeSqliteDriver(path);
      try {
        await migrateTo(driver, planted);
        const read = (sql: string) => driver.read({ sql, args: [] });
        assert.deepEqual(await read("select distinct priority from runs"), [{ priority: 0 }]);
        assert.deepEqual(await read("select thread_id, tag, made_at from tags order by thread_id"), [
          { thread_id: "new", tag: "idle", made_at: 3 },
          { thread_id: "t", tag: "idle", made_at: 2 },
        ]);
        await assert.rejects(
          migrateTo(driver, schema),
          (error) =>
            error instanceof ConfigError &&
            new RegExp(`schema version ${NEWEST + 1}, .* up to ${NEWEST}; use a newer`).test(error.message),
        );
      } finally {
        await driver.close();
      }
    }));
});

it("a database counts its threads and assistants as they change", async () => {
  const storage = sqlStorage(nodeSqliteDriver(":memory:"));
  const counts = async (): Promise<number[]> => [
    await countThreads(storage, here, {}),
    await countAssistants(storage, here, {}),
  ];
  try {
    await storage.migrate();
    await fill(storage);
    await storage.createThread(here, { thread_id: "h", metadata: {}, config: {}, stateless: true }, 9);
    assert.deepEqual(await counts(), [2, 1]);
    const thread = { metadata: { assistant_id: "a" }, config: {}, stateless: false };
    for (const thread_id of ["u", "v", "v"]) await storage.createThread(here, { thread_id, ...thread }, 10);
    await storage.createThread({ deployment: "other" }, { thread_id: "u", ...thread }, 10);
    assert.deepEqual(await counts(), [4, 1]);
    assert.equal(await storage.deleteThread(here, "h"), true);
    assert.equal(await storage.deleteThread(here, "new"), true);
    assert.deepEqual(await counts(), [3, 1]);
    await storage.deleteAssistant(here, "a", { delete_threads: true });
    assert.deepEqual(await counts(), [1, 0]);
  } finally {
    await storage.close();
  }
});

describe("a step", () => {
  it("takes effect once if several processes start at the same time", () =>
    withNewest(async (path) => {
      const drivers = [nodeSqliteDriver(path), nodeSqliteDriver(path), nodeSqliteDriver(path)] as const;
      try {
        await Promise.all(drivers.map((driver) => migrateTo(driver, planted)));
        for (const driver of drivers) assert.deepEqual(await readVersions(driver), [...VERSIONS, NEWEST + 1]);
        const [row] = await drivers[2].read({ sql: "select count(*) as n from tags", args: [] });
        assert.equal(row?.n, 2);
      } finally {
        for (const driver of drivers) await driver.close();
      }
    }));

  it("that fails keeps the version before it", () =>
    withNewest(async (path) => {
      const failing: Schema = {
        ...planted,
        steps: planted.steps.map((step) => ({
          ...step,
          statements: (dialect) => [...step.statements(dialect), "insert into tags select * from no_such_table"],
        })),
      };
      const driver = nodeSqliteDriver(path);
      const storage = sqlStorage(driver);
      try {
        await assert.rejects(migrateTo(driver, failing), /no_such_table/);
        assert.deepEqual(await readVersions(driver), VERSIONS);
        await storage.migrate();
        assert.equal((await storage.listRuns(here, "t", { limit: 10, offset: 0 })).length, 2);
        await migrateTo(driver, planted);
        assert.deepEqual(await readVersions(driver), [...VERSIONS, NEWEST + 1]);
      } finally {
        await storage.close();
      }
    }));

  it("starts again from the version before it if its process was killed during it", () =>
    withNewest(async (path) => {
      const statements = plantedStep.statements("sqlite");
      assert.ok(statements.length > 8);
      for (const [done] of statements.entries()) {
        const killed = `${path}.killed${done}`;
        const writer = new DatabaseSync(path);
        // Spills the pages of the open transaction into the log, where a killed process leaves them.
        writer.exec(
          `pragma cache_size = 1; begin immediate; insert into greenroom_versions (version) values (${NEWEST + 1})`,
        );
        for (const statement of statements.slice(0, done + 1)) writer.exec(statement);
        copyFileSync(path, killed);
        copyFileSync(`${path}-wal`, `${killed}-wal`);
        if (done > 3) assert.ok(statSync(`${killed}-wal`).size > 0, "the log holds a part of the step");
        writer.exec("rollback");
        writer.close();

        const driver = nodeSqliteDriver(killed);
        const storage = sqlStorage(driver);
        try {
          assert.deepEqual(await readVersions(driver), VERSIONS);
          await storage.migrate();
          await migrateTo(driver, planted);
          assert.deepEqual(await readVersions(driver), [...VERSIONS, NEWEST + 1]);
          assert.equal((await storage.listRuns(here, "t", { limit: 10, offset: 0 })).length, 2);
          const [row] = await driver.read({ sql: "select count(*) as n from tags", args: [] });
          assert.equal(row?.n, 2);
        } finally {
          await storage.close();
        }
      }
    }));
});

// A change of `tables` without its step in `schema` fails here.
it("an empty database gets the schema that all steps make", () => {
  const createTables = (statements: readonly string[]): Map<string, string> => {
    const database = new DatabaseSync(":memory:");
    for (const statement of statements) database.exec(statement);
    const rows = database.prepare("select name, sql from sqlite_master where sql is not null").all();
    database.close();
    return new Map(rows.map(({ name, sql }) => [String(name), String(sql).replaceAll(/\s+/g, " ")]));
  };
  const steps = createTables(createSteps("sqlite"));
  assert.ok(steps.size > 60);
  assert.deepEqual(createTables(createNewest("sqlite")), steps);
});
