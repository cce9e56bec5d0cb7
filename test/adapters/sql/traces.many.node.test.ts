/** The lists of runs and of their traces over 10,000 runs, of which one call tests a half: each filter, and pages that join. */
import assert from "node:assert/strict";
import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { after, before, describe, it } from "node:test";
import { type SqlRow, type SqlStatement, sqlStorage } from "../../../adapters/sql/mod.ts";
import type { ListPosition } from "../../../lib/storage/cursor.ts";
import type { RunFilter, RunStatus, Scope, Storage, TraceSearch } from "../../../lib/storage/mod.ts";

const scope: Scope = { deployment: "d" };
const RUNS = 10_000;

interface Run {
  readonly id: string;
  readonly thread: string;
  readonly owner: string;
  readonly created_at: number;
  readonly started_at: number;
  readonly status: RunStatus;
  readonly error: string | null;
  readonly active_ms: number;
  readonly tokens: number;
  readonly graph: string;
  readonly cron: string | null;
  readonly team: number;
  readonly tool: string;
}

const STATUSES = ["success", "error", "success", "timeout", "interrupted", "pending", "success"] as const;

/** One failed run of 10,000 has the error `Rare`, and is the oldest but thirteen. */
const runs: readonly Run[] = Array.from({ length: RUNS }, (_, index) => {
  const status = index === 13 ? "error" : (STATUSES[index % STATUSES.length] as RunStatus);
  const isFailed = status === "error" || status === "timeout";
  const created_at = 1_000_000 + Math.floor(index / 2) * 10;
  return {
    ...{ id: `r${String(index).padStart(5, "0")}`, thread: `t${index % 10}`, created_at, status },
    ...{ owner: index % 10 < 4 ? "ann" : "bob", started_at: created_at + ((index * 7919) % 101) * 40 },
    ...{ error: isFailed ? (index === 13 ? "Rare" : `Error${index % 3}`) : null, active_ms: (index * 37) % 5_000 },
    ...{ tokens: (index * 11) % 400, graph: index % 6 === 0 ? "other" : "g", cron: index % 4 === 0 ? "c" : null },
    ...{ team: index % 9, tool: `tool${index % 8}` },
  };
});

const toText = (cell: string | number | null): string =>
  cell === null ? "null" : typeof cell === "number" ? String(cell) : `'${cell}'`;

function insertRows(
  database: DatabaseSync,
  table: string,
  rows: readonly Readonly<Record<string, string | number | null>>[],
) {
  const columns = Object.keys(rows[0] ?? {});
  for (let index = 0; index < rows.length; index += 500) {
    const values = rows.slice(index, index + 500).map((row) => `(${Object.values(row).map(toText).join()})`);
    database.exec(`insert into ${table} (${columns.join()}) values ${values.join()}`);
  }
}

function fill(database: DatabaseSync): void {
  const times = { created_at: 0, updated_at: 0, state_updated_at: 0 };
  const threads = Array.from({ length: 10 }, (_, index) => ({
    ...{ deployment: "d", thread_id: `t${index}`, ...times, metadata: `{"owner":"${index < 4 ? "ann" : "bob"}"}` },
    ...{ config: "{}", status: "idle", interrupts: "{}", hidden: 0, revision: 0, run_count: RUNS },
  }));
  insertRows(database, "threads", threads);
  const rows = runs.map((run, seq) => {
    const isPending = run.status === "pending";
    const error = run.error === null ? null : `{"error":"${run.error}","message":"no"}`;
    return {
      ...{
        run_id: run.id,
        deployment: "d",
        thread_id: run.thread,
        seq,
        assistant_id: `a-${run.graph}`,
        graph_id: run.graph,
      },
      ...{
        status: run.status,
        metadata: `{"team":${run.team}}`,
        kwargs: "{}",
        multitask_strategy: "enqueue",
        stateless: 0,
      },
      ...{ attempt: 1, claims: 1, counts_as_attempt: 1, due_at: run.created_at, cancelled: 0, has_checkpoint: 0 },
      ...{ has_frames: 0, has_idempotency_key: 0, error, created_at: run.created_at, updated_at: run.created_at },
      ...{ started_at: run.started_at, ended_at: isPending ? null : run.started_at, end_frame: isPending ? null : 1 },
      ...{ user_id: run.owner, cron_id: run.cron, waiting_for: isPending ? '[{"kind":"sleep"}]' : null },
    };
  });
  insertRows(database, "runs", rows);
  const traces = runs.map((run) => ({
    ...{ run_id: run.id, deployment: "d", thread_id: run.thread, graph_id: run.graph, assistant_id: `a-${run.graph}` },
    ...{ cron_id: run.cron, user_id: run.owner, source: "cron", status: run.status, created_at: run.created_at },
    ...{ started_at: run.started_at, ended_at: run.status === "pending" ? null : run.started_at },
    ...{ active_ms: run.active_ms, tokens: run.tokens, failed: run.error === null ? 0 : 1, error_type: run.error },
    ...{ names: `["t:${run.tool}"]`, head: '{"totals":{}}' },
  }));
  insertRows(database, "run_traces", traces);
}

type Filters = Omit<TraceSearch, "limit" | "after">;

const PASSES: { readonly [Name in keyof Filters]?: (run: Run, filter: NonNullable<Filters[Name]>) => boolean } = {
  status: ({ status }, filter) => filter.includes(status),
  failed: ({ error }, filter) => (error !== null) === filter,
  waiting: ({ status }, filter) => (status === "pending") === filter,
  error_type: ({ error }, filter) => error === filter,
  min_active_ms: ({ active_ms }, filter) => active_ms >= filter,
  min_tokens: ({ tokens }, filter) => tokens >= filter,
  tool: ({ tool }, filter) => tool === filter,
  graph_id: ({ graph }, filter) => graph === filter,
  assistant_id: ({ graph }, filter) => `a-${graph}` === filter,
  thread_id: ({ thread }, filter) => thread === filter,
  cron_id: ({ cron }, filter) => cron === filter,
  user_id: ({ owner }, filter) => owner === filter,
  metadata: ({ team }, filter) => team === filter["team"],
  created_after: ({ created_at }, filter) => created_at >= filter,
  created_before: ({ created_at }, filter) => created_at < filter,
  started_after: ({ started_at }, filter) => started_at >= filter,
  started_before: ({ started_at }, filter) => started_at < filter,
};

/** The runs that pass, in the order of a list. */
const select = (filters: Filters, time: "created_at" | "started_at"): readonly string[] =>
  runs
    .filter((run) =>
      Object.entries(filters).every(([name, filter]) => PASSES[name as keyof Filters]?.(run, filter as never)),
    )
    .toSorted((a, b) => b[time] - a[time] || (a.id < b.id ? 1 : -1))
    .map(({ id }) => id);

/** Filters that lists of runs do not have. */
const TRACE_ONLY = new Set(["failed", "min_tokens", "tool"]);

const EACH: readonly Filters[] = [
  ...[{}, { status: ["error", "timeout"] }, { status: ["pending", "success"] }, { failed: true }, { failed: false }],
  ...[{ waiting: true }, { waiting: false }, { error_type: "Error1" }, { error_type: "Rare" }, { error_type: "None" }],
  ...[{ min_active_ms: 4_900 }, { min_tokens: 390 }, { tool: "tool3" }, { tool: "tool" }, { graph_id: "other" }],
  ...[
    { assistant_id: "a-other" },
    { thread_id: "t7" },
    { cron_id: "c" },
    { user_id: "ann" },
    { metadata: { team: 8 } },
  ],
  ...[{ created_after: 1_045_000 }, { created_before: 1_005_000 }, { started_after: 1_049_000 }],
  { started_before: 1_004_000 },
] as readonly Filters[];

/** All filters at once, with bounds that leave a few runs, and with the only run that has the error `Rare`. */
const TOGETHER: readonly Filters[] = [
  {
    ...{ status: ["error", "timeout"], failed: true, waiting: false, error_type: "Error1", min_active_ms: 500 },
    ...{ min_tokens: 20, tool: "tool4", graph_id: "g", assistant_id: "a-g", thread_id: "t8", cron_id: "c" },
    ...{ user_id: "bob", metadata: { team: 1 }, created_after: 1_000_100, created_before: 1_049_000 },
    ...{ started_after: 1_000_200, started_before: 1_050_000 },
  },
  {
    status: ["error"],
    error_type: "Rare",
    waiting: false,
    min_active_ms: 0,
    created_before: 1_049_000,
    user_id: "ann",
  },
];

describe("10,000 runs and their traces", () => {
  let storage: Storage;
  before(async () => {
    const database = new DatabaseSync(":memory:");
    const all = ({ sql, args }: SqlStatement): SqlRow[] =>
      database.prepare(sql).all(...(args as SQLInputValue[])) as SqlRow[];
    storage = sqlStorage({
      dialect: "sqlite",
      read: async (statement) => all(statement),
      batch: async (statements) => statements.map(all),
      acquireWorkerLock: async () => true,
      close: async () => database.close(),
    });
    await storage.migrate();
    fill(database);
  });
  after(() => storage.close());

  /** Reads all pages of a list. */
  async function list(
    name: "searchRuns" | "searchRunTraces",
    filters: Filters,
    limit: number,
    caller = scope,
  ): Promise<readonly string[]> {
    const found: string[] = [];
    for (let position: ListPosition | null | undefined; position !== null; ) {
      const query = { ...filters, limit, ...(position ? { after: position } : {}) };
      const page =
        name === "searchRuns"
          ? await storage.searchRuns(caller, query as RunFilter<number> & { limit: number })
          : await storage.searchRunTraces(caller, query);
      assert.ok(page.rows.length <= limit);
      found.push(...page.rows.map((row) => ("run" in row ? row.run.run_id : row.run_id)));
      position = page.next;
    }
    return found;
  }

  it("are found by each filter alone and by all together, in pages without gaps or doubles", async () => {
    for (const filters of [...EACH, ...TOGETHER]) {
      const label = JSON.stringify(filters);
      assert.deepEqual(await list("searchRunTraces", filters, 1_000), select(filters, "started_at"), `traces ${label}`);
      if (Object.keys(filters).some((name) => TRACE_ONLY.has(name))) continue;
      assert.deepEqual(await list("searchRuns", filters, 1_000), select(filters, "created_at"), `runs ${label}`);
    }
    for (const filters of TOGETHER) assert.ok(select(filters, "created_at").length > 0, JSON.stringify(filters));
  });

  it("are found in small pages, also where pages are short because few rows pass", async () => {
    for (const filters of [{ error_type: "Rare" }, { waiting: true, user_id: "ann" }, { min_active_ms: 4_990 }]) {
      assert.deepEqual(await list("searchRunTraces", filters, 7), select(filters, "started_at"));
      assert.deepEqual(await list("searchRuns", filters, 7), select(filters, "created_at"));
    }
  });

  it("are found by callers with a filter only on threads that they see", async () => {
    const caller: Scope = { ...scope, filter: [{ key: "owner", equals: "ann" }] };
    const filters = { error_type: "Error1", min_active_ms: 100 };
    const own = select({ ...filters, user_id: "ann" }, "created_at");
    assert.ok(own.length > 100 && own.length < select(filters, "created_at").length);
    assert.deepEqual(await list("searchRuns", filters, 500, caller), own);
    assert.deepEqual(
      await list("searchRunTraces", filters, 500, caller),
      select({ ...filters, user_id: "ann" }, "started_at"),
    );
  });
});
