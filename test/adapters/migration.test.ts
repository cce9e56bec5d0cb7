/** Databases of earlier versions are brought up to date with everything in them. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, it } from "node:test";
import { labelsOf } from "../../adapters/sql/labels.ts";
import { newSchema, schemaSteps } from "../../adapters/sql/schema.ts";
import { nodeSqlite } from "../../adapters/sqlite/node.ts";
import type { JsonObject } from "../../lib/json.ts";
import type { AssistantRow, Storage, ThreadRow } from "../../lib/storage/mod.ts";

const here = { deployment: "default" };

/**
 * A database of an earlier version: an assistant, a thread with a state and one without, a run that has ended and one that
 * waits, and the labels of their metadata.
 */
function earlier(path: string, version: number): void {
  const database = new DatabaseSync(path);
  database.exec("create table greenroom_schema (version integer not null primary key)");
  for (const [i, step] of schemaSteps.slice(0, version).entries()) {
    database.exec(`insert into greenroom_schema (version) values (${i + 1})`);
    for (const statement of step.statements) database.exec(statement);
  }
  const label = (kind: string, row_id: string, metadata: JsonObject): void => {
    for (const [path_hash, value_hash] of labelsOf(metadata)) {
      const insert =
        "insert into labels (deployment, kind, row_id, path_hash, value_hash) values ('default', ?, ?, ?, ?)";
      database.prepare(insert).run(kind, row_id, path_hash, value_hash);
    }
  };
  database.exec(`insert into assistants (deployment, assistant_id, graph_id, name, config, context, metadata, version,
      created_at, updated_at, revision)
    values ('default', 'a', 'g', 'A', '{}', '{}', '{"team":"blue"}', 1, 1, 1, 1)`);
  database.exec(`insert into assistant_versions (deployment, assistant_id, version, graph_id, name, config, context,
      metadata, created_at) values ('default', 'a', 1, 'g', 'A', '{}', '{}', '{"team":"blue"}', 1)`);
  label("assistant", "a", { team: "blue" });
  const metadata = { owner: "ada", tags: ["x", "y"] };
  const thread = (id: string, created_at: number, head: string | null, run_count: number): void => {
    const insert = `insert into threads (deployment, thread_id, created_at, updated_at, state_updated_at, metadata, config,
      status, head, interrupts, hidden, revision, run_count) values ('default', ?, ?, 1, 1, ?, '{}', 'idle', ?, '{}', 0, 1, ?)`;
    database.prepare(insert).run(id, created_at, JSON.stringify(metadata), head, run_count);
    label("thread", id, metadata);
  };
  thread("t", 2, "c2", 2);
  thread("new", 3, null, 0);
  const checkpoint = (id: string, seq: number, parent: string | null): void => {
    const insert = `insert into checkpoints (deployment, thread_id, ns, checkpoint_id, seq, run_id, parent_id, type, data,
      metadata, versions, created_at) values ('default', 't', '', ?, ?, 'r1', ?, 'json', '{}', '{}', ?, 1)`;
    database.prepare(insert).run(id, seq, parent, JSON.stringify({ n: id }));
    database.exec(`insert into channel_values (deployment, thread_id, ns, channel, version, run_id, type, data)
      values ('default', 't', '', 'n', '${id}', 'r1', 'json', '${seq}')`);
  };
  checkpoint("c1", 1, null);
  checkpoint("c2", 2, "c1");
  const run = (run_id: string, seq: number, rest: string): void =>
    database.exec(`insert into runs (run_id, deployment, thread_id, seq, assistant_id, graph_id, metadata, kwargs,
        multitask_strategy, temporary, attempt, claims, charged, due_at, cancelled, saved, framed, keyed, created_at,
        updated_at, status, ended_at, end_frame)
      values ('${run_id}', 'default', 't', ${seq}, 'a', 'g', '{}', '{"config":{},"context":{}}', 'enqueue', 0, 0, 0, 0, 1,
        0, 0, 0, 0, 1, 1, ${rest})`);
  run("r1", 1, "'success', 2, 1");
  run("r2", 2, "'pending', null, null");
  database.close();
}

/** A storage on such a database, migrated. */
async function migrated(version: number, body: (storage: Storage) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "greenroom-migration-"));
  try {
    const path = join(folder, "old.db");
    earlier(path, version);
    const storage = nodeSqlite(path);
    await storage.migrate();
    await storage.migrate();
    await body(storage);
    await storage.close();
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

describe("a database of the first version", () => {
  it("keeps its runs, which tell nobody, and takes new ones", () =>
    migrated(1, async (storage) => {
      const runs = await storage.listRuns(here, "t", { limit: 10, offset: 0 });
      assert.deepEqual(
        runs.map(({ run_id, status, feedback, webhook, user_id }) => [run_id, status, feedback, webhook, user_id]),
        [
          ["r2", "pending", [], null, null],
          ["r1", "success", [], null, null],
        ],
      );
      const trace = { workspace_id: "w", project_id: "p", counted: true };
      const claim = { graph_ids: ["g"], now: 5, token: "k", lease_until: 50, trace };
      assert.equal((await storage.claimRun(here, claim)).kind, "claimed");
      assert.equal((await storage.getTrace("r2"))?.started_at, 5);
      // A run that had started before has no trace, and none is made up.
      assert.equal(await storage.getTrace("r1"), null);
      const { workspace } = await storage.identity.ensureDefaults(6);
      assert.equal((await storage.identity.ensureDefaults(7)).workspace.id, workspace.id);
    }));
});

for (const version of [1, 2]) {
  describe(`a database of version ${version}`, () => {
    const threads = async (storage: Storage, metadata: JsonObject, values?: JsonObject): Promise<string> => {
      const query = { metadata, ...(values && { values }), sort_by: "created_at", sort_order: "asc" } as const;
      const { rows, total } = await storage.searchThreads(here, { ...query, limit: 10, offset: 0 });
      assert.equal(total, rows.length);
      return rows.map((row) => row.thread_id).join();
    };
    const assistants = async (storage: Storage, metadata: JsonObject): Promise<string> => {
      const page = { limit: 10, offset: 0, sort_by: "created_at", sort_order: "asc" } as const;
      return (await storage.searchAssistants(here, { metadata, ...page })).rows.map((row) => row.assistant_id).join();
    };

    it("finds its threads and assistants by their metadata, as before", () =>
      migrated(version, async (storage) => {
        assert.equal(await threads(storage, { owner: "ada" }), "t,new");
        assert.equal(await threads(storage, { tags: ["y"] }), "t,new");
        assert.equal(await threads(storage, { owner: "eve" }), "");
        assert.equal(await storage.countThreads(here, { metadata: { owner: "ada" } }), 2);
        assert.deepEqual(
          [await assistants(storage, { team: "blue" }), await assistants(storage, { team: "red" })],
          ["a", ""],
        );
        const filter = [{ key: "owner", equals: "ada" }];
        const page = { limit: 10, offset: 0, sort_by: "thread_id", sort_order: "asc" } as const;
        assert.equal((await storage.searchThreads({ ...here, filter }, page)).total, 2);
        // What is written now stands beside what was.
        await storage.updateThread(here, "t", () => ({ metadata: { owner: "eve" } }), 9);
        await storage.createThread(here, { thread_id: "u", metadata: { owner: "ada" }, config: {}, hidden: false }, 10);
        assert.deepEqual(
          [await threads(storage, { owner: "ada" }), await threads(storage, { owner: "eve" })],
          ["new,u", "t"],
        );
        assert.equal(await threads(storage, { tags: ["y"] }), "new");
        assert.equal(await storage.deleteThread(here, "new"), true);
        assert.equal(await threads(storage, { owner: "ada" }), "u");
      }));

    it("may hold any values in the states that are there", () =>
      migrated(version, async (storage) => {
        // Those without a state hold none.
        assert.equal(await threads(storage, {}, { n: 2 }), "t");
        await storage.stopRuns(here, { thread_id: "t", run_ids: ["r2"] }, "interrupt", 9);
        const state = { graph_id: "g", progress: { checkpoints: [], writes: [] }, head: "c1", scalars: { n: 1 } };
        assert.equal(await storage.writeState(here, "t", { ...state, seen_head: "c2" }, 10), "written");
        assert.deepEqual([await threads(storage, {}, { n: 1 }), await threads(storage, {}, { n: 2 })], ["t", ""]);
      }));

    it("keeps its threads for good, until they are given a time", () =>
      migrated(version, async (storage) => {
        assert.deepEqual(await storage.expireThreads(here, 9e12, 10), []);
        const thread = (await storage.getThread(here, "t")) as ThreadRow;
        assert.deepEqual([thread.ttl, thread.head, thread.status], [null, "c2", "busy"]);
        await storage.stopRuns(here, { thread_id: "t", run_ids: ["r2"] }, "rollback", 9);
        assert.deepEqual(await storage.pruneThreads(here, ["t"], "keep_latest", 10), ["t"]);
        const kept = await storage.listCheckpoints(here, "t", { limit: 10 });
        assert.deepEqual(
          kept.map(({ checkpoint_id, parent_id, values }) => [checkpoint_id, parent_id, values[0]?.data]),
          [["c2", null, "2"]],
        );
        const ttl = { strategy: "delete", ttl_ms: 5 } as const;
        await storage.updateThread(here, "t", ({ metadata }) => ({ metadata, ttl }), 20);
        assert.deepEqual(await storage.expireThreads(here, 24, 10), []);
        assert.deepEqual(await storage.expireThreads(here, 25, 10), ["t"]);
        assert.equal(await threads(storage, { owner: "ada" }), "new");
      }));

    it("takes crons and runs of users", () =>
      migrated(version, async (storage) => {
        const options = { on_run_completed: null, timezone: null, end_time: null, enabled: true, next_run_date: 100 };
        const own = { payload: {}, metadata: { x: 1 }, user_id: null, auth_user: { identity: "ada" } };
        const cron = { cron_id: "k", assistant_id: "a", thread_id: "t", schedule: "* * * * *", ...options, ...own };
        assert.equal((await storage.createCron(here, cron, 10)).kind, "created");
        assert.equal(await storage.countCrons(here, { metadata: { x: 1 } }), 1);
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
          temporary: false,
          framed: false,
          created_at: 11,
          auth_user: { identity: "ada" },
        } as const;
        const seen = { assistant_revision: assistant.revision, thread_revision: thread.revision };
        assert.equal((await storage.createRun(here, { run, seen, now: 11 })).kind, "created");
        assert.deepEqual((await storage.getRun(here, "r3"))?.auth_user, { identity: "ada" });
        assert.equal((await storage.getRun(here, "r1"))?.auth_user, null);
      }));
  });
}

it("an empty database gets at once what it would have got step by step", () => {
  const made = (statements: readonly string[]): Map<string, string> => {
    const database = new DatabaseSync(":memory:");
    for (const statement of statements) database.exec(statement);
    const rows = database.prepare("select name, sql from sqlite_master where sql is not null").all();
    database.close();
    const plain = (sql: unknown): string =>
      String(sql)
        .replaceAll(/\s+/g, " ")
        .replaceAll(/ (?=[,)])/g, "");
    return new Map(rows.map(({ name, sql }) => [String(name), plain(sql)]));
  };
  const steps = made(schemaSteps.flatMap(({ statements }) => statements));
  assert.ok(steps.size > 60);
  assert.deepEqual(made(newSchema()), steps);
});
