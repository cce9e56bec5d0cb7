/** Databases of earlier versions are brought up to date with everything in them. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, it } from "node:test";
import { nodeSqlite } from "../../adapters/node-sqlite.ts";
import { schemaSteps } from "../../adapters/sql/schema.ts";

/** A database of the first version with one run that has ended and one that waits. */
function first(path: string): void {
  const database = new DatabaseSync(path);
  database.exec("create table greenroom_schema (version integer not null primary key)");
  database.exec("insert into greenroom_schema (version) values (1)");
  for (const statement of schemaSteps("blob")[0]?.statements ?? []) database.exec(statement);
  database.exec(`insert into threads (deployment, thread_id, created_at, updated_at, state_updated_at, metadata, config,
      status, interrupts, hidden, revision, run_count) values ('default', 't', 1, 1, 1, '{}', '{}', 'idle', '{}', 0, 1, 2)`);
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

describe("a database of the first version", () => {
  it("keeps its runs, which tell nobody, and takes new ones", async () => {
    const folder = mkdtempSync(join(tmpdir(), "greenroom-migration-"));
    try {
      const path = join(folder, "old.db");
      first(path);
      const storage = nodeSqlite(path);
      await storage.migrate();
      const here = { deployment: "default" };
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
      await storage.close();
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});
