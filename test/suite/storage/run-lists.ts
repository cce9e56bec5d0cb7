/** Tests of the filters that the lists of runs and of their traces share: each alone, all together, and page by page. */
import assert from "node:assert/strict";
import type { JsonObject } from "../../../lib/json.ts";
import type { ListPosition } from "../../../lib/storage/cursor.ts";
import type {
  AssistantRow,
  ClaimedRun,
  RunFilter,
  RunStatus,
  Storage,
  TraceHead,
  TraceSearch,
} from "../../../lib/storage/mod.ts";
import {
  createAssistant,
  createThread,
  finish,
  here,
  progress,
  requireCreated,
  type StorageTest,
  type SuiteApi,
} from "./material.ts";

const RUNS = 72;
const PAGE_SIZE = 7;

/** A run as the filters see it. */
interface ListedRecord {
  readonly run_id: string;
  readonly thread_id: string;
  readonly created_at: number;
  readonly started_at: number;
  readonly status: RunStatus;
  readonly waiting: boolean;
  readonly assistant_id: string;
  readonly graph_id: string;
  readonly cron_id: string | null;
  readonly user_id: string;
  readonly metadata: JsonObject;
  readonly error_type: string | null;
  readonly active_ms: number;
  readonly tokens: number;
  readonly tool: string;
}

const STATUSES = ["success", "error", "pending", "timeout", "interrupted"] as const satisfies readonly RunStatus[];

/** The members have different periods, so that each pair of filters divides the runs in its own way. */
function createRecord(index: number): ListedRecord {
  const status = STATUSES[index % STATUSES.length] as RunStatus;
  const isFailed = status === "error" || status === "timeout";
  // Pairs of runs are created at once. Later runs may start earlier.
  const created_at = 1100 + Math.floor(index / 2) * 10;
  return {
    ...{ run_id: `r${String(index).padStart(2, "0")}`, thread_id: `t${index}`, status, waiting: status === "pending" },
    ...{ created_at, started_at: created_at + (index % 7) * 15 },
    ...(index % 6 === 0 ? { assistant_id: "b", graph_id: "other" } : { assistant_id: "a", graph_id: "echo" }),
    ...{ cron_id: index % 4 === 0 ? "c1" : null, user_id: index % 2 === 0 ? "ada" : "bob" },
    ...{ metadata: { team: index % 3, 'a "quoted" name': "ä" }, error_type: isFailed ? `Error ${index % 2}` : null },
    ...{ active_ms: ((index * 37) % 100) + 0.5, tokens: (index * 11) % 50, tool: `t${index % 3}` },
  };
}

const RECORDS: readonly ListedRecord[] = Array.from({ length: RUNS }, (_, index) => createRecord(index));

/** Stores a run and its trace. */
async function store(storage: Storage, assistants: readonly AssistantRow[], record: ListedRecord): Promise<void> {
  const { run_id, thread_id, created_at, started_at, status, assistant_id, graph_id, cron_id } = record;
  const { user_id, metadata, error_type, active_ms, tokens, tool } = record;
  await createThread(storage, thread_id);
  const assistant = assistants.find((row) => row.assistant_id === assistant_id) as AssistantRow;
  const created = await requireCreated(storage, assistant, thread_id, run_id, {
    now: started_at,
    claim: { token: `token-${run_id}`, lease_until: 9000 },
    run: { created_at, assistant_id, graph_id, user_id, metadata, ...(cron_id === null ? {} : { cron_id }) },
  });
  const { lease } = created.claimed as ClaimedRun;
  const head: TraceHead = {
    ...{ content: "references", sampled: true, kept: 0, dropped: {}, content_bytes: 0, at_ms: 1, claim: 1 },
    totals: { spans: 0, model: 0, tool: 0, errors: 0, tokens_in: tokens, tokens_out: 0, cost_usd: 0 },
    ...{ closed: true, active_before_ms: 0 },
  };
  const trace = { source: "cron", head, names: [`t:${tool}`], active_ms, parts: [], contents: [] } as const;
  if (status === "pending") {
    const suspension = { due_at: 9999, waiting_for: [{ kind: "sleep" }], last_event_seq: 0 };
    const suspended = { ...suspension, progress: { ...progress([]), spans: trace } };
    assert.ok(await storage.suspendRun(here, lease, suspended, 3000));
    return;
  }
  const error = error_type === null ? null : { error: error_type, message: "It failed" };
  const end = finish({ status: status as "success", error, trace: { ...trace, spans: "[]" }, now: 3000 });
  assert.deepEqual(await storage.finishRun(here, lease, end), { next: null });
}

async function fill(storage: Storage): Promise<void> {
  const assistants = [
    await createAssistant(storage),
    await createAssistant(storage, { assistant_id: "b", graph_id: "other" }),
  ];
  for (const record of RECORDS) await store(storage, assistants, record);
}

type Filters = RunFilter<number>;

/** Tells whether a run passes each filter. */
const PASSES: {
  readonly [Name in keyof Filters]-?: (run: ListedRecord, filter: NonNullable<Filters[Name]>) => boolean;
} = {
  status: ({ status }, filter) => filter.includes(status),
  assistant_id: ({ assistant_id }, filter) => assistant_id === filter,
  graph_id: ({ graph_id }, filter) => graph_id === filter,
  thread_id: ({ thread_id }, filter) => thread_id === filter,
  cron_id: ({ cron_id }, filter) => cron_id === filter,
  user_id: ({ user_id }, filter) => user_id === filter,
  metadata: ({ metadata }, filter) => Object.entries(filter).every(([key, member]) => metadata[key] === member),
  created_after: ({ created_at }, filter) => created_at >= filter,
  created_before: ({ created_at }, filter) => created_at < filter,
  started_after: ({ started_at }, filter) => started_at >= filter,
  started_before: ({ started_at }, filter) => started_at < filter,
  min_active_ms: ({ active_ms }, filter) => active_ms >= filter,
  error_type: ({ error_type }, filter) => error_type === filter,
  waiting: ({ waiting }, filter) => waiting === filter,
};

function passes(run: ListedRecord, filters: Filters): boolean {
  return Object.entries(filters).every(([name, filter]) => PASSES[name as keyof Filters](run, filter as never));
}

/** The ids of runs in the order of a list: the newest time first, then by falling id. */
const sortIds = (records: readonly ListedRecord[], time: "created_at" | "started_at"): readonly string[] =>
  records.toSorted((a, b) => b[time] - a[time] || (a.run_id < b.run_id ? 1 : -1)).map(({ run_id }) => run_id);

/** Reads a list page by page. */
async function readPages(
  read: (after: { after?: ListPosition }) => Promise<{ ids: readonly string[]; next: ListPosition | null }>,
): Promise<readonly string[]> {
  const found: string[] = [];
  for (let after: ListPosition | null | undefined; after !== null; ) {
    const { ids, next } = await read(after ? { after } : {});
    assert.ok(ids.length <= PAGE_SIZE);
    found.push(...ids);
    after = next;
  }
  return found;
}

const listRuns = (storage: Storage, filters: Filters): Promise<readonly string[]> =>
  readPages(async (after) => {
    const { rows, next } = await storage.searchRuns(here, { ...filters, ...after, limit: PAGE_SIZE });
    return { ids: rows.map(({ run }) => run.run_id), next };
  });

const listTraces = (storage: Storage, filters: Omit<TraceSearch, "limit">): Promise<readonly string[]> =>
  readPages(async (after) => {
    const { rows, next } = await storage.searchRunTraces(here, { ...filters, ...after, limit: PAGE_SIZE });
    return { ids: rows.map(({ run_id }) => run_id), next };
  });

/** Each filter with values that some runs pass and others do not, and a value that none passes. */
const EACH: { readonly [Name in keyof Filters]-?: readonly NonNullable<Filters[Name]>[] } = {
  status: [["error", "timeout"], ["success"], ["pending"], ["running"]],
  assistant_id: ["a", "b", "c"],
  graph_id: ["echo", "other", "third"],
  thread_id: ["t7", "t99"],
  cron_id: ["c1", "c2"],
  user_id: ["ada", "bob", "eve"],
  metadata: [{ team: 1 }, { 'a "quoted" name': "ä", team: 2 }, { team: "1" }],
  created_after: [1250, 1350, 9999],
  created_before: [1250, 1110, 1],
  started_after: [1250, 1350, 9999],
  started_before: [1250, 1130, 1],
  min_active_ms: [50, 80.5, 1000],
  error_type: ["Error 0", "Error 1", "Error"],
  waiting: [true, false],
};

/** All filters of a run that failed, with bounds that leave others out. */
function createFilters(run: ListedRecord): Filters {
  const { status, assistant_id, graph_id, thread_id, cron_id, user_id, metadata, created_at, started_at } = run;
  return {
    ...{
      status: [status, "success"],
      assistant_id,
      graph_id,
      thread_id,
      cron_id: cron_id as string,
      user_id,
      metadata,
    },
    ...{ created_after: created_at, created_before: created_at + 1 },
    ...{ started_after: started_at, started_before: started_at + 1 },
    ...{ min_active_ms: run.active_ms, error_type: run.error_type as string, waiting: false },
  };
}

export function runListTests(api: SuiteApi, test: StorageTest): void {
  api.describe("the lists of runs and of their traces", () => {
    test("find the same runs by each filter alone, in pages without gaps or doubles", async (storage) => {
      await fill(storage);
      for (const [name, values] of [...Object.entries(EACH), ["", [undefined]] as const]) {
        for (const value of values) {
          const filters: Filters = value === undefined ? {} : { [name]: value };
          const found = RECORDS.filter((run) => passes(run, filters));
          const label = JSON.stringify(filters);
          assert.deepEqual(await listRuns(storage, filters), sortIds(found, "created_at"), `runs ${label}`);
          assert.deepEqual(await listTraces(storage, filters), sortIds(found, "started_at"), `traces ${label}`);
        }
      }
    });

    test("find a run by all filters together, and none if one of them does not hold", async (storage) => {
      await fill(storage);
      const failed = RECORDS.filter(({ error_type, cron_id }) => error_type !== null && cron_id !== null);
      assert.ok(failed.length > 3);
      for (const run of failed) {
        const filters = createFilters(run);
        assert.deepEqual(await listRuns(storage, filters), [run.run_id]);
        assert.deepEqual(await listTraces(storage, filters), [run.run_id]);
      }
      const [run] = failed as [ListedRecord];
      const filters = createFilters(run);
      const others: Required<Filters> = {
        ...{ status: ["success"], assistant_id: "c", graph_id: "third", thread_id: "t99", cron_id: "c2" },
        ...{ user_id: "eve", metadata: { team: 9 }, created_after: run.created_at + 1, created_before: run.created_at },
        ...{ started_after: run.started_at + 1, started_before: run.started_at, min_active_ms: run.active_ms + 0.25 },
        ...{ error_type: "Error 9", waiting: true },
      };
      for (const name of Object.keys(others) as (keyof Filters)[]) {
        const changed = { ...filters, [name]: others[name] };
        assert.deepEqual(await listRuns(storage, changed), [], name);
        assert.deepEqual(await listTraces(storage, changed), [], name);
      }
    });

    test("find runs by several filters, also those that only traces have", async (storage) => {
      await fill(storage);
      const filters: Filters = { waiting: false, user_id: "bob", min_active_ms: 20, started_after: 1200 };
      const found = RECORDS.filter((run) => passes(run, filters));
      assert.deepEqual(await listRuns(storage, filters), sortIds(found, "created_at"));
      const more = { ...filters, failed: true, tool: "t1", min_tokens: 10, source: "cron" } as const;
      const traced = found.filter(
        ({ error_type, tool, tokens }) => error_type !== null && tool === "t1" && tokens >= 10,
      );
      assert.ok(traced.length > 1 && traced.length < found.length);
      assert.deepEqual(await listTraces(storage, more), sortIds(traced, "started_at"));
    });
  });

  api.describe("runs without a trace", () => {
    test("are found by the time from their first start to their end, once they have ended", async (storage) => {
      const assistant = await createAssistant(storage);
      const claim = { token: "w", lease_until: 9000 };
      for (const run_id of ["r1", "r2"]) await createThread(storage, run_id);
      const { claimed } = await requireCreated(storage, assistant, "r1", "r1", { claim });
      await storage.finishRun(here, (claimed as ClaimedRun).lease, finish({ now: 2000 }));
      await requireCreated(storage, assistant, "r2", "r2", { claim: { ...claim, token: "w2" } });
      assert.deepEqual(await listRuns(storage, { min_active_ms: 900 }), ["r1"]);
      assert.deepEqual(await listRuns(storage, { min_active_ms: 900.5 }), []);
      assert.deepEqual(await listTraces(storage, { min_active_ms: 0 }), []);
    });
  });
}
