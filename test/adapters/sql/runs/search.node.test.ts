/** Searches over all runs of a deployment read by index, and test a bounded number of rows. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { after, before, describe, it } from "node:test";
import { type SqlRow, type SqlStatement, sqlStorage } from "../../../../adapters/sql/mod.ts";
import type { RunSearch, Scope, Storage } from "../../../../lib/storage/mod.ts";

const scope: Scope = { deployment: "d" };
const RUNS = 12_000;

describe("searches over many runs", () => {
  let folder: string;
  let database: DatabaseSync;
  let storage: Storage;
  const reads: SqlStatement[] = [];

  const all = ({ sql, args }: SqlStatement): SqlRow[] =>
    database.prepare(sql).all(...(args as SQLInputValue[])) as SqlRow[];

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "greenroom-plan-"));
    database = new DatabaseSync(join(folder, "agents.db"));
    storage = sqlStorage({
      dialect: "sqlite",
      async read(statement) {
        reads.push(statement);
        return all(statement);
      },
      async batch(statements) {
        reads.push(...statements);
        return statements.map(all);
      },
      acquireWorkerLock: async () => true,
      close: async () => database.close(),
    });
    await storage.migrate();
    database.exec(`insert into threads (deployment, thread_id, created_at, updated_at, state_updated_at, metadata, config,
        status, interrupts, hidden, revision, run_count)
      values ('d', 't', 0, 0, 0, '{"owner":"ann"}', '{}', 'interrupted', '{}', 0, 0, 0)`);
    database.exec(`with recursive n(i) as (select 0 union all select i + 1 from n where i < ${RUNS - 1})
      insert into runs (run_id, deployment, thread_id, seq, assistant_id, graph_id, status, metadata, kwargs,
        multitask_strategy, stateless, attempt, claims, counts_as_attempt, due_at, cancelled, has_checkpoint, has_frames, has_idempotency_key,
        created_at, updated_at, started_at, ended_at, end_frame)
      select printf('r%05d', i), 'd', 't', i, case i when 5 then 'rare' else 'a' end, 'g',
        case when i % 10 = 0 then 'error' else 'success' end, '{}', '{}', 'enqueue', 0, 1, 1, 1, i, 0, 0, 0, 0, i, i, i, i, 1
      from n`);
  });
  after(async () => {
    await storage.close();
    await rm(folder, { recursive: true, force: true });
  });

  /** Returns the query plans of the statements that a call sends. */
  async function readPlan(call: () => Promise<unknown>): Promise<string> {
    reads.length = 0;
    await call();
    const plans = reads.map(({ sql, args }) => all({ sql: `explain query plan ${sql}`, args }));
    return plans.flatMap((plan) => plan.map(({ detail }) => detail)).join("\n");
  }

  it("are not made at a start: it reads the runs that are running or due", async () => {
    const plan = await readPlan(() => storage.becomeWorker(0));
    const scans = plan.split("\n").filter((line) => line.startsWith("SCAN "));
    assert.deepEqual(
      new Set(scans.map((line) => line.replace(/^SCAN \w+ USING (?:COVERING )?INDEX /, ""))),
      new Set(["runs_running", "runs_immediate", "threads_left", "deliveries_claimed"]),
    );
  });

  const search = (query: Partial<RunSearch>, of = scope) => storage.searchRuns(of, { limit: 50, ...query });

  it("use the index of statuses, and sort a page at most", async () => {
    const ann: Scope = { ...scope, filter: [{ key: "owner", equals: "ann" }] };
    const calls: (() => Promise<unknown>)[] = [
      () => search({}),
      () => search({ status: ["error"] }),
      () => search({ assistant_id: "a", metadata: { a: 1 }, after: { created_at: 500, id: "r" } }),
      () => search({}, ann),
      () => storage.readRunTimes(scope, { counted_since: 10, timed_since: 10, limit: 100 }),
    ];
    for (const call of calls) {
      const plan = await readPlan(call);
      assert.match(plan, /SEARCH runs USING (?:COVERING )?INDEX runs_status/);
      assert.doesNotMatch(plan, /SCAN runs\b/);
      assert.equal(plan.match(/INDEX runs_(?!status)/), null, plan);
    }
    assert.match(await readPlan(() => search({ thread_id: "t" })), /INDEX runs_order/);
    assert.match(await readPlan(() => search({ cron_id: "c" })), /INDEX runs_cron/);
  });

  it("read waiting threads and failed deliveries by their own indexes", async () => {
    const page = { limit: 10, offset: 0, sort_order: "asc", sort_by: "state_updated_at" } as const;
    const plan = await readPlan(() => storage.searchThreads(scope, { status: "interrupted", ...page }));
    assert.match(plan, /INDEX threads_interrupted/);
    assert.doesNotMatch(plan, /B-TREE FOR ORDER/);
    const failed = await readPlan(() => storage.listDeliveries(scope, { state: "failed", limit: 10 }));
    assert.match(failed, /INDEX deliveries_failed/);
    assert.doesNotMatch(failed, /B-TREE/);
  });

  it("continue from their cursor, and find each run once", async () => {
    const problems: string[] = [];
    let pages = 0;
    for (let after: RunSearch["after"] | null; after !== null; pages++) {
      const { rows, next } = await search({ assistant_id: "rare", ...(after ? { after } : {}) });
      problems.push(...rows.map(({ run }) => run.run_id));
      after = next;
    }
    assert.deepEqual([problems, pages], [["r00005"], 3]);
    let count = 0;
    for (let after: RunSearch["after"] | null; after !== null; ) {
      const { rows, next } = await search({ graph_id: "g", limit: 1000, ...(after ? { after } : {}) });
      count += rows.length;
      after = next;
    }
    assert.equal(count, RUNS);
  });

  it("a claim reads no runs that wait for a later time: thousands may be suspended", async () => {
    const claim = { graph_ids: ["g"], token: "t", lease_until: 2, now: 1 };
    const plan = await readPlan(async () => assert.equal((await storage.claimRun(scope, claim)).kind, "none"));
    // Once, for the running ones.
    assert.equal(plan.split("USING INDEX runs_status").length - 1, 1, plan);
    assert.match(plan, /EXISTS USING INDEX runs_immediate|SEARCH runs USING INDEX runs_immediate/);
    assert.doesNotMatch(plan, /SCAN runs/);
  });
});
