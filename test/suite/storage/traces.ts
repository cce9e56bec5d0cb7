/** Tests of run traces: what saves and ends store, who sees them, searches, and when they go. */
import assert from "node:assert/strict";
import type {
  AssistantRow,
  ClaimedRun,
  FinishRun,
  RunStatus,
  Storage,
  ThreadRow,
  TraceEnd,
  TraceHead,
  TraceSearch,
  TraceUpdate,
} from "../../../lib/storage/mod.ts";
import {
  claimNext,
  claimTerms,
  createAssistant,
  createClaimedRun,
  createThread,
  finish,
  here,
  progress,
  requireCreated,
  type StorageTest,
  type SuiteApi,
  stateless,
  there,
} from "./material.ts";

const head: TraceHead = {
  ...{ content: "references", sampled: true, kept: 2, dropped: { tool: 3 }, content_bytes: 5 },
  totals: { spans: 5, model: 1, tool: 3, errors: 0, tokens_in: 7, tokens_out: 4, cost_usd: 0.5 },
  ...{ at_ms: 12.5, claim: 1, closed: false, active_before_ms: 0 },
};

const formatSpans = (...names: readonly string[]): string => JSON.stringify(names.map((name) => ({ name })));

const createUpdate = (changes: Partial<TraceUpdate> = {}): TraceUpdate => ({
  ...{ source: "runs.wait", head, names: ["n:agent", "t:weather"], active_ms: 12.25, parts: [], contents: [] },
  ...changes,
});

const createEnd = (changes: Partial<TraceEnd> = {}): TraceEnd => ({
  ...createUpdate(),
  head: { ...head, closed: true },
  spans: formatSpans("attempt"),
  ...changes,
});

/** Claims a run on a thread with this metadata. */
async function claim(storage: Storage, run_id: string, metadata = {}): Promise<ClaimedRun> {
  const assistant = await createAssistant(storage);
  await createThread(storage, `t-${run_id}`, metadata);
  return await createClaimedRun(storage, assistant, `t-${run_id}`, run_id);
}

async function end(
  storage: Storage,
  { lease, run }: ClaimedRun,
  trace: TraceEnd = createEnd(),
  options: Partial<FinishRun> = {},
): Promise<void> {
  const ended = await storage.finishRun(here, lease, finish({ claims: run.claims, trace, ...options }));
  assert.deepEqual(ended, { next: null });
}

const search = async (storage: Storage, query: Partial<TraceSearch> = {}, scope = here): Promise<string> => {
  const { rows } = await storage.searchRunTraces(scope, { limit: 100, ...query });
  return rows.map(({ run_id }) => run_id).join();
};

export function traceTests(api: SuiteApi, test: StorageTest): void {
  api.describe("a run trace", () => {
    test("is stored with its end, and has what the run says of itself", async (storage) => {
      const claimed = await claim(storage, "r1");
      assert.equal(await storage.getRunTrace(here, "r1"), null);
      await end(storage, claimed, createEnd({ contents: [{ hash: "h1", json: '"hello"' }] }));
      const trace = await storage.getRunTrace(here, "r1");
      assert.deepEqual(trace, {
        ...{ run_id: "r1", thread_id: "t-r1", graph_id: "echo", assistant_id: "a", cron_id: null, user_id: null },
        ...{ source: "runs.wait", status: "success", waiting: false, failed: false, error_type: null },
        ...{ created_at: 1100, started_at: 1100, ended_at: 2000, active_ms: 12.25 },
        ...{ names: ["n:agent", "t:weather"], head: { ...head, closed: true } },
        ...{ spans: formatSpans("attempt"), parts: [], claims: [] },
      });
      assert.deepEqual(await storage.readTraceContents(here, "r1"), [{ hash: "h1", json: '"hello"' }]);
      assert.equal(await storage.getRunTrace(there, "r1"), null);
      assert.deepEqual(await storage.readTraceContents(there, "r1"), []);
    });

    test("is absent after an end without one", async (storage) => {
      const { lease } = await claim(storage, "r1");
      await storage.finishRun(here, lease, finish());
      assert.equal(await storage.getRunTrace(here, "r1"), null);
    });

    test("shows the error of a failed run", async (storage) => {
      await end(storage, await claim(storage, "r1"), createEnd(), {
        status: "error",
        error: { error: "TypeError", message: "no" },
      });
      await end(storage, await claim(storage, "r2"), createEnd(), {
        status: "timeout",
        error: { error: "RunTimeout", message: "late" },
      });
      await end(storage, await claim(storage, "r3"), createEnd(), { status: "interrupted" });
      const rows = await Promise.all(["r1", "r2", "r3"].map((run_id) => storage.getRunTrace(here, run_id)));
      assert.deepEqual(
        rows.map((row) => [row?.status, row?.failed, row?.error_type]),
        [
          ["error", true, "TypeError"],
          ["timeout", true, "RunTimeout"],
          ["interrupted", false, null],
        ],
      );
    });

    test("grows with saves, which may be repeated, and not without the lease", async (storage) => {
      const { lease } = await claim(storage, "r1");
      const first = createUpdate({
        parts: [{ part: 65_536, json: formatSpans("one") }],
        contents: [{ hash: "h1", json: "1" }],
      });
      const save = (spans: TraceUpdate, token = lease.token): Promise<boolean> =>
        storage.saveProgress(here, { ...lease, token }, { ...progress([]), spans }, 1500);
      assert.equal(await save(first), true);
      assert.equal(await save(first), true, "again");
      assert.equal(await save(createUpdate({ parts: [{ part: 65_538, json: "[]" }] }), "other"), false);
      const parts = Array.from({ length: 10 }, (_, index) => ({ part: 65_537 + index, json: formatSpans(`${index}`) }));
      const contents = Array.from({ length: 10 }, (_, index) => ({ hash: `h${index}`, json: `${index}` }));
      assert.equal(await save(createUpdate({ active_ms: 20, names: ["m:gpt-5"], parts, contents })), true);
      const active = await storage.getRunTrace(here, "r1");
      assert.deepEqual(
        [active?.status, active?.ended_at, active?.active_ms, active?.names, active?.spans],
        ["running", null, 20, ["m:gpt-5"], null],
      );
      assert.deepEqual(active?.parts, [{ part: 65_536, json: formatSpans("one") }, ...parts]);
      await end(storage, { lease, run: { claims: 1 } } as ClaimedRun);
      const ended = await storage.getRunTrace(here, "r1");
      assert.deepEqual([ended?.status, ended?.spans, ended?.parts.length], ["success", formatSpans("attempt"), 11]);
      assert.deepEqual((await storage.readTraceContents(here, "r1")).toSorted(byHash), contents);
    });

    test("is stored when its run is suspended or goes back to the queue", async (storage) => {
      const { lease } = await claim(storage, "r1");
      const parts = [{ part: 65_536, json: formatSpans("one") }];
      const spans = createUpdate({ head: { ...head, closed: true }, parts });
      await storage.suspendRun(
        here,
        lease,
        { progress: { ...progress([]), spans }, due_at: 2500, waiting_for: [{ kind: "sleep" }], last_event_seq: 0 },
        1500,
      );
      const suspended = await storage.getRunTrace(here, "r1");
      assert.deepEqual([suspended?.status, suspended?.waiting, suspended?.parts], ["pending", true, parts]);
      const next = (await claimNext(storage, here, claimTerms("w2"))) as ClaimedRun;
      const later = createUpdate({ parts: [{ part: 131_072, json: formatSpans("two") }] });
      assert.equal(await storage.requeueRun(here, next.lease, 3500, later), true);
      assert.equal(await storage.requeueRun(here, next.lease, 3500, later), false, "the lease is gone");
      const requeued = await storage.getRunTrace(here, "r1");
      assert.deepEqual([requeued?.status, requeued?.waiting, requeued?.parts.length], ["pending", false, 2]);
    });

    test("continues with the next attempt, which learns of lost leases", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const claimed = await requireCreated(storage, assistant, "t", "r1", {
        claim: { token: "w1", lease_until: 2000, worker: "first" },
      });
      assert.deepEqual(await storage.getTraceProgress(here, "r1"), {
        ...{ head: null, names: [], active_ms: 0 },
        claims: [{ claim: 1, at: 1100, worker: "first", lost_lease_until: null }],
      });
      assert.ok(claimed.claimed);
      await storage.saveProgress(here, claimed.claimed.lease, { ...progress([]), spans: createUpdate() }, 1500);
      const next = await claimNext(storage, here, { ...claimTerms("w2"), worker: "second" });
      assert.equal(next?.run.claims, 2);
      const claims = [
        { claim: 1, at: 1100, worker: "first", lost_lease_until: 2000 },
        { claim: 2, at: 3000, worker: "second", lost_lease_until: null },
      ];
      assert.deepEqual(await storage.getTraceProgress(here, "r1"), {
        ...{ head, names: ["n:agent", "t:weather"], active_ms: 12.25, claims },
      });
      assert.deepEqual((await storage.getRunTrace(here, "r1"))?.claims, claims);
      const { rows } = await storage.searchRuns(here, { run_id: "r1", limit: 1 });
      assert.deepEqual(
        rows[0]?.claim_log,
        claims.map(({ at, worker }) => ({ at, worker })),
      );
    });

    test("keeps how its run was created", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const trace_origin = { source: "mcp", request_id: "q1", links: [{ kind: "called_by", trace_id: "x" }] } as const;
      await requireCreated(storage, assistant, "t", "r1", { run: { trace_origin } });
      assert.deepEqual((await storage.getRun(here, "r1"))?.trace_origin, trace_origin);
      const claimed = await claimNext(storage, here, claimTerms("w1"));
      assert.deepEqual(claimed?.run.trace_origin, trace_origin);
    });
  });

  deletionTests(api, test);
  searchTests(api, test);
}

const byHash = (a: { readonly hash: string }, b: { readonly hash: string }): number => (a.hash < b.hash ? -1 : 1);

/** Stores a trace with a part and a content, and ends its run. */
async function createTrace(storage: Storage, claimed: ClaimedRun, options: Partial<FinishRun> = {}): Promise<void> {
  const spans = createUpdate({ parts: [{ part: 65_536, json: "[]" }], contents: [{ hash: "h", json: "1" }] });
  await storage.saveProgress(here, claimed.lease, { ...progress([]), spans }, 1500);
  await end(storage, claimed, createEnd(), options);
}

/**
 * True if no table has a row of a trace. Parts and contents are read only together with a trace, so a run with the same id is made once
 * more: it would show those that are left.
 */
async function isGone(storage: Storage, run_id: string): Promise<boolean> {
  if ((await storage.getRunTrace(here, run_id)) !== null) return false;
  const assistant = await createAssistant(storage);
  await createThread(storage, `again-${run_id}`);
  const again = await createClaimedRun(storage, assistant, `again-${run_id}`, run_id);
  await end(storage, again, createEnd());
  const trace = await storage.getRunTrace(here, run_id);
  const contents = await storage.readTraceContents(here, run_id);
  return trace?.parts.length === 0 && contents.length === 0;
}

function deletionTests(api: SuiteApi, test: StorageTest): void {
  api.describe("a trace", () => {
    test("is deleted with its run, its thread, and by a rollback", async (storage) => {
      for (const run_id of ["r1", "r2"]) await createTrace(storage, await claim(storage, run_id));
      assert.equal(await storage.deleteRun(here, "t-r1", "r1", 3000), "deleted");
      assert.equal(await isGone(storage, "r1"), true);
      assert.equal(await storage.deleteThread(here, "t-r2"), true);
      assert.equal(await isGone(storage, "r2"), true);
      const { lease } = await claim(storage, "r3");
      const spans = createUpdate({ parts: [{ part: 65_536, json: "[]" }], contents: [{ hash: "h", json: "1" }] });
      await storage.saveProgress(here, lease, { ...progress([]), spans }, 1500);
      await storage.stopRuns(here, { run_ids: ["r3"] }, "rollback", 2000);
      assert.equal(await isGone(storage, "r3"), true);
    });

    test("is deleted with a thread whose lifetime is over, and stays when only its states are pruned", async (storage) => {
      const assistant = await createAssistant(storage);
      for (const [thread_id, strategy] of [
        ["t1", "delete"],
        ["t2", "keep_latest"],
      ] as const) {
        const ttl = { strategy, ttl_ms: 500 };
        await storage.createThread(here, { thread_id, metadata: {}, config: {}, stateless: false, ttl }, 1000);
        await createTrace(storage, await createClaimedRun(storage, assistant, thread_id, `r-${thread_id}`));
      }
      assert.deepEqual((await storage.pruneThreads(here, { max_expired: 10 }, 9000)).toSorted(), ["t1", "t2"]);
      assert.equal(await search(storage), "r-t2");
      assert.equal(await isGone(storage, "r-t1"), true);
      assert.equal((await storage.getRunTrace(here, "r-t2"))?.parts.length, 1);
    });

    test("is deleted on request, unless its run is active", async (storage) => {
      const claimed = await claim(storage, "r1", { owner: "ada" });
      const spans = createUpdate({ parts: [{ part: 65_536, json: "[]" }] });
      await storage.saveProgress(here, claimed.lease, { ...progress([]), spans }, 1500);
      const filtered = (owner: string) => ({ ...here, filter: [{ key: "owner", equals: owner }] });
      assert.equal(await storage.deleteRunTrace(here, "r1"), "active");
      await end(storage, claimed);
      assert.equal(await storage.deleteRunTrace(filtered("bob"), "r1"), "not_found");
      assert.equal(await storage.deleteRunTrace(there, "r1"), "not_found");
      assert.equal(await storage.deleteRunTrace(filtered("ada"), "r1"), "deleted");
      assert.equal(await storage.deleteRunTrace(here, "r1"), "not_found");
      assert.equal((await storage.getRun(here, "r1"))?.status, "success");
    });

    test("of a stateless run outlives it, until retention deletes it", async (storage) => {
      const assistant = await createAssistant(storage);
      await createTrace(storage, await stateless(storage, assistant, "r1"));
      const sweep = async (limits: object): Promise<void> => {
        while ((await storage.deleteExpired(here, { limit: 10, now: 9000, ...limits })) > 0);
      };
      await sweep({ stateless_before: 5000 });
      assert.equal(await storage.getRun(here, "r1"), null);
      const trace = await storage.getRunTrace(here, "r1");
      assert.deepEqual([trace?.thread_id, trace?.status, trace?.claims], [null, "success", []]);
      await sweep({ features: { traces: 2000 } });
      assert.equal(await isGone(storage, "r1"), false, "it ended at 2000");
      await sweep({ features: { traces: 2001 } });
      assert.equal(await isGone(storage, "r1"), true);
    });

    test("of an active run is not deleted by retention", async (storage) => {
      const { lease } = await claim(storage, "r1");
      await storage.saveProgress(here, lease, { ...progress([]), spans: createUpdate() }, 1500);
      assert.equal(await storage.deleteExpired(here, { features: { traces: 9000 }, limit: 10, now: 9000 }), 0);
      assert.equal(await search(storage), "r1");
    });

    test("is not copied with its thread", async (storage) => {
      await createTrace(storage, await claim(storage, "r1"));
      const { revision: expected_revision } = (await storage.getThread(here, "t-r1")) as ThreadRow;
      const copy = { from: "t-r1", expected_revision, thread_id: "copy", metadata: {} };
      assert.equal((await storage.copyThread(here, copy, 5000)).kind, "copied");
      assert.equal(await search(storage), "r1");
      assert.equal(await storage.deleteThread(here, "copy"), true);
      assert.equal(await search(storage), "r1");
    });
  });
}

const RUNS = 30;

/** A run of the search tests; its members are those of the trace that it leaves. */
interface SearchedRun {
  readonly run_id: string;
  readonly at: number;
  readonly status: RunStatus;
  readonly tool: string;
  readonly tokens: number;
  readonly active_ms: number;
  readonly owner: string;
}

const SEARCHED: readonly SearchedRun[] = Array.from({ length: RUNS }, (_, index) => ({
  run_id: `r${String(index).padStart(2, "0")}`,
  at: 1100 + Math.floor(index / 2) * 10,
  status: (["success", "error", "timeout", "interrupted"] as const)[index % 4] as RunStatus,
  tool: `tool "${index % 3}"`,
  tokens: index,
  active_ms: index * 2,
  owner: index % 2 === 0 ? "ada" : "bob",
}));

/** Stores the runs of `SEARCHED`, every fifth of them stateless. */
async function fill(storage: Storage): Promise<void> {
  const assistant: AssistantRow = await createAssistant(storage);
  for (const [index, { run_id, at, status, tool, tokens, active_ms, owner }] of SEARCHED.entries()) {
    const times = { run: { created_at: at }, now: at };
    const metadata = { owner };
    let claimed: ClaimedRun;
    if (index % 5 === 0) {
      const thread_id = `thread-${run_id}`;
      const create_thread = { thread_id, metadata, config: {}, stateless: true };
      const claim = { token: `token-${run_id}`, lease_until: 5000 };
      claimed = await stateless(storage, assistant, run_id, { ...times, create_thread, claim });
    } else {
      await createThread(storage, run_id, metadata);
      const claim = { token: `token-${run_id}`, lease_until: 5000 };
      const created = await requireCreated(storage, assistant, run_id, run_id, {
        ...{ now: at, claim, run: { created_at: at, metadata, user_id: owner } },
      });
      claimed = created.claimed as ClaimedRun;
    }
    const totals = { ...head.totals, tokens_in: tokens, tokens_out: 0 };
    const trace = createEnd({ head: { ...head, totals }, active_ms, names: [`t:${tool}`] });
    const error = status === "error" || status === "timeout" ? { error: `E${index}`, message: "" } : null;
    await end(storage, claimed, trace, { status: status as FinishRun["status"], error });
  }
}

/** The ids of the runs that pass, as a search returns them. */
const expected = (passes: (run: SearchedRun, index: number) => boolean): string =>
  SEARCHED.filter(passes)
    .toSorted((a, b) => b.at - a.at || (a.run_id < b.run_id ? 1 : -1))
    .map(({ run_id }) => run_id)
    .join();

const isFailed = ({ status }: SearchedRun): boolean => status === "error" || status === "timeout";

function searchTests(api: SuiteApi, test: StorageTest): void {
  api.describe("a search for traces", () => {
    test("finds those that pass each filter", async (storage) => {
      await fill(storage);
      assert.equal(
        await search(storage),
        expected(() => true),
      );
      assert.equal(await search(storage, {}, there), "");
      assert.equal(await search(storage, { failed: true }), expected(isFailed));
      assert.equal(
        await search(storage, { failed: false }),
        expected((run) => !isFailed(run)),
      );
      assert.equal(
        await search(storage, { tool: 'tool "1"' }),
        expected(({ tool }) => tool === 'tool "1"'),
      );
      assert.equal(await search(storage, { tool: "tool" }), "");
      assert.equal(await search(storage, { node: 'tool "1"' }), "");
      assert.equal(await search(storage, { model: "gpt-5" }), "");
      assert.equal(
        await search(storage, { min_tokens: 20 }),
        expected(({ tokens }) => tokens >= 20),
      );
      assert.equal(
        await search(storage, { min_active_ms: 20.5 }),
        expected(({ active_ms }) => active_ms >= 20.5),
      );
      assert.equal(
        await search(storage, { status: ["timeout"] }),
        expected(({ status }) => status === "timeout"),
      );
      assert.equal(await search(storage, { error_type: "E5" }), "r05");
      assert.equal(
        await search(storage, { source: "runs.wait" }),
        expected(() => true),
      );
      assert.equal(await search(storage, { source: "mcp" }), "");
      assert.equal(
        await search(storage, { graph_id: "echo", assistant_id: "a" }),
        expected(() => true),
      );
      assert.equal(await search(storage, { graph_id: "other" }), "");
      assert.equal(await search(storage, { cron_id: "c" }), "");
      assert.equal(await search(storage, { thread_id: "r07" }), "r07");
      assert.equal(await search(storage, { waiting: true }), "");
      assert.equal(
        await search(storage, { waiting: false }),
        expected(() => true),
      );
      assert.equal(
        await search(storage, { user_id: "ada" }),
        expected(({ owner }, index) => owner === "ada" && index % 5 !== 0),
      );
      assert.equal(
        await search(storage, { metadata: { owner: "bob" } }),
        expected(({ owner }, index) => owner === "bob" && index % 5 !== 0),
      );
      const times = { started_after: 1130, started_before: 1200 };
      assert.equal(
        await search(storage, times),
        expected(({ at }) => at >= 1130 && at < 1200),
      );
      const created = { created_after: 1130, created_before: 1200 };
      assert.equal(
        await search(storage, created),
        expected(({ at }) => at >= 1130 && at < 1200),
      );
      assert.equal(
        await search(storage, { ...times, failed: true, tool: 'tool "2"', min_tokens: 10 }),
        expected(
          (run) => run.at >= 1130 && run.at < 1200 && isFailed(run) && run.tool === 'tool "2"' && run.tokens >= 10,
        ),
      );
    });

    test("returns pages without gaps or doubles", async (storage) => {
      await fill(storage);
      for (const query of [{}, { failed: true }, { min_tokens: 3, started_after: 1120 }]) {
        const ids: string[] = [];
        let after: TraceSearch["after"];
        for (;;) {
          const page = await storage.searchRunTraces(here, { ...query, limit: 4, ...(after ? { after } : {}) });
          ids.push(...page.rows.map(({ run_id }) => run_id));
          if (!page.next) break;
          after = page.next;
        }
        assert.equal(ids.join(), await search(storage, query));
      }
    });

    test("hides the traces of threads that the filter excludes, also of stateless runs that are gone", async (storage) => {
      await fill(storage);
      const filtered = { ...here, filter: [{ key: "owner", equals: "ada" }] };
      const own = expected(({ owner }) => owner === "ada");
      assert.equal(await search(storage, {}, filtered), own);
      while ((await storage.deleteExpired(here, { stateless_before: 9000, limit: 100, now: 9000 })) > 0);
      assert.equal(await storage.getRun(here, "r10"), null);
      assert.equal(await search(storage, {}, filtered), own);
      assert.equal((await storage.getRunTrace(filtered, "r10"))?.run_id, "r10");
      assert.equal(await storage.getRunTrace(filtered, "r05"), null);
      assert.equal(await storage.getRunTrace(filtered, "r01"), null);
    });

    test("hides the trace of a stateless run with long metadata from callers with a filter", async (storage) => {
      const assistant = await createAssistant(storage);
      const thread_id = "thread-r1";
      const metadata = { owner: "ada", long: "x".repeat(4_100) };
      const create_thread = { thread_id, metadata, config: {}, stateless: true };
      await end(storage, await stateless(storage, assistant, "r1", { create_thread }));
      assert.equal(await search(storage), "r1");
      assert.equal(await search(storage, {}, { ...here, filter: [{ key: "owner", equals: "ada" }] }), "");
    });
  });
}
