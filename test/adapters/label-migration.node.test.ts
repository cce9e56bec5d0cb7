/** Rows that an earlier version has labelled are found as all others are, and threads that it gave a state too. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, it } from "node:test";
import { labelsOf } from "../../adapters/sql/labels.ts";
import { schemaSteps } from "../../adapters/sql/schema.ts";
import { nodeSqlite } from "../../adapters/sqlite/node.ts";
import type { JsonObject } from "../../lib/json.ts";

const here = { deployment: "default" };
const newest = { limit: 10, offset: 0, sort_by: "created_at", sort_order: "desc" } as const;

/** A database of the second version with these threads, made one after the other; every other one has a state. */
function second(path: string, metadata: readonly JsonObject[]): void {
  const database = new DatabaseSync(path);
  database.exec("create table greenroom_schema (version integer not null primary key)");
  database.exec("insert into greenroom_schema (version) values (1), (2)");
  for (const step of schemaSteps.slice(0, 2)) for (const statement of step.statements) database.exec(statement);
  const thread = database.prepare(`insert into threads (deployment, thread_id, created_at, updated_at, state_updated_at,
      metadata, config, status, head, interrupts, hidden, revision, run_count)
    values ('default', ?, ?, 1, 1, ?, '{}', 'idle', ?, '{}', 0, 1, 0)`);
  const label = database.prepare("insert into labels values ('default', 'thread', ?, ?, ?)");
  for (const [i, its] of metadata.entries()) {
    thread.run(`old${i}`, 100 + i, JSON.stringify(its), i % 2 === 0 ? `c${i}` : null);
    for (const [path_hash, value_hash] of labelsOf(its)) label.run(`old${i}`, BigInt(path_hash), BigInt(value_hash));
  }
  database.close();
}

describe("a database of the second version", () => {
  it("keeps its labels, beside new ones", async () => {
    const folder = mkdtempSync(join(tmpdir(), "greenroom-labels-"));
    try {
      const path = join(folder, "old.db");
      second(path, [{ owner: "ann", n: 1 }, { owner: "bob" }, { owner: "ann", list: ["x"] }]);
      const storage = nodeSqlite(path);
      await storage.migrate();
      const thread = (thread_id: string, metadata: JsonObject) =>
        storage.createThread(here, { thread_id, metadata, config: {}, hidden: false }, 1000);
      await thread("new0", { owner: "ann", n: 2 });
      await thread("new1", { owner: "eve" });
      const ids = async (query: { metadata?: JsonObject; values?: JsonObject }): Promise<string> => {
        const { rows, total } = await storage.searchThreads(here, { ...newest, ...query });
        assert.equal(total, rows.length);
        assert.equal(await storage.countThreads(here, query), total);
        return rows.map((row) => row.thread_id).join();
      };
      assert.equal(await ids({ metadata: { owner: "ann" } }), "new0,old2,old0");
      assert.equal(await ids({ metadata: { owner: "ann", n: 1 } }), "old0");
      assert.equal(await ids({ metadata: { list: ["x"] } }), "old2");
      assert.equal(await ids({ metadata: { owner: "eve" } }), "new1");
      assert.equal(await ids({ metadata: { owner: "nobody" } }), "");
      assert.equal(await ids({ values: { topic: "tea" } }), "old2,old0", "what they hold is not known");
      await storage.updateThread(here, "old0", () => ({ metadata: { owner: "ann", n: 3 } }), 2000);
      await storage.deleteThread(here, "old2");
      assert.equal(await ids({ metadata: { owner: "ann" } }), "new0,old0");
      assert.equal(await ids({ metadata: { n: 1 } }), "");
      assert.equal(await ids({ values: { topic: "tea" } }), "old0");
      await storage.close();
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
