/** Checks of searches among many traces: each filter, all of them together, callers with a filter, and pages that join. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { SqlDriver } from "../../../adapters/sql/driver.ts";
import { sqlStorage } from "../../../adapters/sql/mod.ts";
import type { RunTraceStorage, Scope, TraceSearch } from "../../../lib/storage/mod.ts";

const TRACES = 10_000;
const ROWS_PER_STATEMENT = 500;
const START = Date.UTC(2026, 0, 1);
const here: Scope = { deployment: "default" };

/** One trace: the members that filters test. */
interface FilledTrace {
  readonly run_id: string;
  readonly deployment: string;
  readonly graph_id: string;
  readonly assistant_id: string;
  readonly cron_id: string | null;
  readonly user_id: string | null;
  readonly source: string;
  readonly status: string;
  readonly created_at: number;
  readonly started_at: number;
  readonly active_ms: number;
  readonly tokens: number;
  readonly error_type: string | null;
  readonly names: readonly string[];
  readonly visible: Readonly<Record<string, string | number>>;
}

/** Creates a generator of numbers from 0 to below `below`, the same in every run of the test. */
function createRandom(): (below: number) => number {
  let state = 7;
  return (below) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return (state >>> 8) % below;
  };
}

const STATUSES = ["success", "error", "timeout", "interrupted"] as const;

function createTraces(): readonly FilledTrace[] {
  const random = createRandom();
  return Array.from({ length: TRACES }, (_, index) => {
    const status = STATUSES[Math.max(0, random(12) - 8)] as string;
    // Several traces start in the same millisecond.
    const started_at = START + Math.floor(index / 3);
    return {
      run_id: `run-${String((index * 7_919) % TRACES).padStart(5, "0")}`,
      deployment: random(50) === 0 ? "other" : "default",
      graph_id: `graph ${random(3)}`,
      assistant_id: `assistant-${random(4)}`,
      cron_id: random(20) === 0 ? `cron-${random(2)}` : null,
      user_id: random(2) === 0 ? `user-${random(5)}` : null,
      source: ["runs.wait", "cron", "mcp"][random(3)] as string,
      ...{ status, started_at, created_at: started_at - random(1_000) },
      ...{ active_ms: random(60_000) / 8, tokens: random(50_000) },
      error_type: status === "error" ? `Error${random(3)}` : null,
      names: [`n:node ${random(4)}`, ...(random(3) === 0 ? [`t:tool "${random(5)}"`] : []), `m:model'${random(3)}`],
      visible: { owner: `owner-${random(4)}`, level: random(3), kind: `k${random(2)}` },
    };
  });
}

const isFailed = ({ status }: FilledTrace): boolean => status === "error" || status === "timeout";
const HEAD = JSON.stringify({ kept: 1, at_ms: 1, claim: 1, totals: { spans: 1 } });

const quote = (value: string | number | null): string =>
  typeof value === "string" ? `'${value.replaceAll("'", "''")}'` : String(value);

/** Inserts the traces of stateless runs, whose runs and threads are gone. */
async function fill(driver: SqlDriver, traces: readonly FilledTrace[]): Promise<void> {
  const toRow = (trace: FilledTrace): string => {
    const { run_id, deployment, graph_id, assistant_id, cron_id, user_id, source, status, created_at } = trace;
    const values = [
      ...[run_id, deployment, null, graph_id, assistant_id, cron_id, user_id, source, status, created_at],
      ...[trace.started_at, trace.started_at + 1, trace.active_ms, trace.tokens, isFailed(trace) ? 1 : 0],
      ...[trace.error_type, JSON.stringify(trace.names), HEAD, "[]", JSON.stringify(trace.visible)],
    ];
    return `(${values.map(quote).join()})`;
  };
  for (let first = 0; first < traces.length; first += ROWS_PER_STATEMENT) {
    const rows = traces.slice(first, first + ROWS_PER_STATEMENT).map(toRow);
    const sql = `insert into run_traces (run_id, deployment, thread_id, graph_id, assistant_id, cron_id, user_id, source, status,
      created_at, started_at, ended_at, active_ms, tokens, failed, error_type, names, head, spans, visible) values ${rows.join()}`;
    await driver.batch([{ sql, args: [] }]);
  }
}

type Passes = (trace: FilledTrace) => boolean;

/** Filters, and the traces that pass each. */
const FILTERS: readonly (readonly [query: Partial<TraceSearch>, passes: Passes])[] = [
  [{}, () => true],
  [{ failed: true }, isFailed],
  [{ failed: false }, (trace) => !isFailed(trace)],
  [{ min_active_ms: 3_000.125 }, ({ active_ms }) => active_ms >= 3_000.125],
  [{ min_tokens: 25_000 }, ({ tokens }) => tokens >= 25_000],
  [{ node: "node 1" }, ({ names }) => names.includes("n:node 1")],
  [{ node: "node" }, () => false],
  [{ tool: 'tool "2"' }, ({ names }) => names.includes('t:tool "2"')],
  [{ model: "model'1" }, ({ names }) => names.includes("m:model'1")],
  [{ error_type: "Error1" }, ({ error_type }) => error_type === "Error1"],
  [{ graph_id: "graph 2" }, ({ graph_id }) => graph_id === "graph 2"],
  [{ assistant_id: "assistant-3" }, ({ assistant_id }) => assistant_id === "assistant-3"],
  [{ cron_id: "cron-1" }, ({ cron_id }) => cron_id === "cron-1"],
  [{ user_id: "user-4" }, ({ user_id }) => user_id === "user-4"],
  [{ source: "mcp" }, ({ source }) => source === "mcp"],
  [{ metadata: { owner: "owner-2" } }, ({ visible }) => visible["owner"] === "owner-2"],
  [
    { metadata: { owner: "owner-2", level: 1 } },
    ({ visible }) => visible["owner"] === "owner-2" && visible["level"] === 1,
  ],
  [{ metadata: { level: "1" } }, () => false],
  [{ waiting: true }, () => false],
  [{ waiting: false }, () => true],
  [{ started_after: START + 1_000 }, ({ started_at }) => started_at >= START + 1_000],
  [{ started_before: START + 1_000 }, ({ started_at }) => started_at < START + 1_000],
  [{ created_after: START + 500 }, ({ created_at }) => created_at >= START + 500],
  [{ created_before: START + 500 }, ({ created_at }) => created_at < START + 500],
];

/** Filters that hold together for some traces. */
const TOGETHER: readonly Partial<TraceSearch>[] = [
  { failed: true },
  { min_active_ms: 3_000.125 },
  { min_tokens: 25_000 },
  { node: "node 1" },
  { model: "model'1" },
  { graph_id: "graph 2" },
  { source: "mcp" },
  { started_after: START + 1_000 },
  { created_after: START + 500 },
];

/** The names of members that could be taken for those of all objects. */
const PROTOTYPE_FILTERS: readonly (readonly [metadata: string, passes: Passes])[] = [
  ['{"__proto__": "p1"}', () => false],
  ['{"constructor": "x"}', () => false],
  ['{"toString": null}', () => false],
];

/** Reads all pages of a search. Fails if one has too many rows, or if pages do not end. */
async function searchAll(
  storage: RunTraceStorage,
  query: Partial<TraceSearch>,
  { scope = here, limit = 1_000 }: { readonly scope?: Scope; readonly limit?: number } = {},
): Promise<string[]> {
  const ids: string[] = [];
  let after: TraceSearch["after"];
  for (let pages = 0; pages < 2_000; pages++) {
    const page = await storage.searchRunTraces(scope, { ...query, limit, ...(after ? { after } : {}) });
    assert.ok(page.rows.length <= limit);
    ids.push(...page.rows.map(({ run_id }) => run_id));
    if (!page.next) return ids;
    after = page.next;
  }
  throw new Error("the pages do not end");
}

/** Registers the checks. `open` opens a new database. */
export function registerTraceSearchChecks(name: string, open: () => Promise<SqlDriver>): void {
  describe(`a search among ${TRACES} traces on ${name}`, () => {
    const traces = createTraces();
    const sorted = traces
      .filter(({ deployment }) => deployment === "default")
      .toSorted((a, b) => b.started_at - a.started_at || (a.run_id < b.run_id ? 1 : -1));
    const expect = (passes: Passes): string[] => sorted.filter(passes).map(({ run_id }) => run_id);
    let storage: ReturnType<typeof sqlStorage>;
    before(async () => {
      const driver = await open();
      storage = sqlStorage(driver);
      await storage.migrate();
      await fill(driver, traces);
    });
    after(() => storage.close());

    it("finds the right ones by each filter, in pages without gaps or doubles", async () => {
      for (const [query, passes] of FILTERS) {
        const about = JSON.stringify(query);
        assert.deepEqual(await searchAll(storage, query), expect(passes), about);
      }
      // Pages that end inside of one millisecond.
      for (const [query, passes] of FILTERS.slice(7, 10))
        assert.deepEqual(await searchAll(storage, query, { limit: 7 }), expect(passes), JSON.stringify(query));
    });

    it("finds the right ones by all filters together", async () => {
      const query = Object.assign({}, ...TOGETHER) as Partial<TraceSearch>;
      const passes: Passes = (trace) =>
        TOGETHER.every((one) => FILTERS.find(([known]) => JSON.stringify(known) === JSON.stringify(one))?.[1](trace));
      const ids = expect(passes);
      assert.ok(ids.length > 0, "none passes all filters");
      assert.deepEqual(await searchAll(storage, query), ids);
      assert.deepEqual(await searchAll(storage, query, { limit: 1 }), ids);
    });

    it("shows a caller with a filter only what it permits, whatever the search asks for", async () => {
      const scope: Scope = { ...here, filter: [{ key: "owner", equals: "owner-1" }] };
      const isOwn: Passes = ({ visible }) => visible["owner"] === "owner-1";
      for (const [query, passes] of FILTERS)
        assert.deepEqual(
          await searchAll(storage, query, { scope }),
          expect((trace) => isOwn(trace) && passes(trace)),
          JSON.stringify(query),
        );
    });

    it("takes names of members of all objects for those of metadata", async () => {
      for (const [metadata, passes] of PROTOTYPE_FILTERS)
        assert.deepEqual(await searchAll(storage, { metadata: JSON.parse(metadata) }), expect(passes), metadata);
    });

    it("continues from the cursor of another search, and from one that no search has returned", async () => {
      const { next } = await storage.searchRunTraces(here, { failed: true, limit: 40 });
      assert.ok(next);
      const isAfter: Passes = ({ started_at, run_id }) =>
        started_at < next.created_at || (started_at === next.created_at && run_id < next.id);
      const { rows } = await storage.searchRunTraces(here, { source: "mcp", limit: 100, after: next });
      assert.deepEqual(
        rows.map(({ run_id }) => run_id),
        expect((trace) => isAfter(trace) && trace.source === "mcp").slice(0, 100),
      );
      for (const created_at of [-999_999_999_999_999, 999_999_999_999_999]) {
        const after = { created_at, id: "none" };
        const page = await storage.searchRunTraces(here, { limit: 10, after });
        assert.equal(page.rows.length, created_at < 0 ? 0 : 10);
      }
    });
  });
}
