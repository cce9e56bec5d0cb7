/** Tests of traces and usage: counts equal the stored rows, before and after sealing, also for late rows. */
import assert from "node:assert/strict";
import type { BillingTerms, Storage, TraceRow, UsageGroup, UsageQuery, UsageRow } from "../../../lib/storage/mod.ts";
import { addTraces } from "../traces.ts";
import { createDice } from "../workload.ts";
import {
  claimNext,
  claimTerms,
  create,
  createAssistant,
  createSeeds,
  createThread,
  here,
  newRun,
  requireCreated,
  type StorageTest,
  type SuiteApi,
  scaleByEffort,
} from "./material.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const GROUPS: readonly UsageGroup[] = ["workspace", "project", "user", "api_key"];
const trace: BillingTerms = { workspace_id: "w1", project_id: "p1", counted: true };

function createTraceRow(trace_id: string, started_at: number, changes: Partial<TraceRow> = {}): TraceRow {
  const defaults = {
    thread_id: null,
    workspace_id: "w1",
    project_id: "p1",
    user_id: "u1",
    api_key: "k1",
    counted: true,
    usage: { tokens_in: 0, tokens_out: 0, cost_usd: 0 },
  };
  return { trace_id, started_at, ...defaults, ...changes };
}

function createQuery(changes: Partial<UsageQuery> = {}): UsageQuery {
  const all = { start: 0, end: 30 * DAY, origin: 0, stride_ms: DAY };
  return { workspace_ids: ["w1"], group_by: "workspace", ...all, ...changes };
}

/** Returns the expected result, computed row by row. */
function countRows(traces: readonly TraceRow[], query: UsageQuery): UsageRow[] {
  const column = { workspace: "workspace_id", project: "project_id", user: "user_id", api_key: "api_key" } as const;
  const rows = new Map<string, { bucket: number; dimension: string | null; traces: number }>();
  for (const row of traces) {
    if (!row.counted || !query.workspace_ids.includes(row.workspace_id)) continue;
    if (row.started_at < query.start || row.started_at >= query.end) continue;
    const bucket = Math.floor((row.started_at - query.origin) / query.stride_ms);
    const dimension = row[column[query.group_by]];
    const key = JSON.stringify([bucket, dimension]);
    const sum = rows.get(key) ?? { bucket, dimension, traces: 0 };
    sum.traces++;
    rows.set(key, sum);
  }
  const points = (text: string): number[] => [...text].map((char) => char.codePointAt(0) as number);
  const compare = (a: string | null, b: string | null): number => {
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    const [leftPoints, rightPoints] = [points(a), points(b)];
    const at = leftPoints.findIndex((point, i) => point !== rightPoints[i]);
    if (at < 0) return leftPoints.length - rightPoints.length;
    return rightPoints[at] === undefined ? 1 : (leftPoints[at] as number) - (rightPoints[at] as number);
  };
  return [...rows.values()].sort((a, b) => a.bucket - b.bucket || compare(a.dimension, b.dimension));
}

async function sealAll(storage: Storage, before: number): Promise<void> {
  while (await storage.sealUsage(before));
}

export function usageTests(api: SuiteApi, test: StorageTest): void {
  /** Returns the total number of traces, counted hour by hour. */
  const total = async (storage: Storage, workspace_ids: readonly string[] = ["w1"]): Promise<number> => {
    const rows = await storage.countUsage(createQuery({ workspace_ids, end: 1000 * DAY, stride_ms: HOUR }));
    return rows.reduce((sum, row) => sum + row.traces, 0);
  };

  api.describe("the trace of a run", () => {
    test("is stored by its first attempt, in any worker, with the values of the run's creation", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const claim = { token: "w", lease_until: 5000, trace };
      const by = { user_id: "u1", api_key: "k1" };
      await requireCreated(storage, assistant, "t", "r1", { claim, run: by });
      assert.deepEqual(await storage.getTrace("r1"), createTraceRow("r1", 1100, { thread_id: "t" }));

      await createThread(storage, "t2");
      await requireCreated(storage, assistant, "t2", "r2", { run: { created_at: 1200 } });
      assert.equal(await storage.getTrace("r2"), null);
      const later = { ...trace, counted: false, project_id: "p2" };
      assert.ok(await claimNext(storage, here, { ...claimTerms("x"), now: 3000, trace: later }));
      const second = { thread_id: "t2", project_id: "p2", user_id: null, api_key: null, counted: false };
      assert.deepEqual(await storage.getTrace("r2"), createTraceRow("r2", 3000, second));
      assert.equal(await storage.getTrace("r3"), null);
      assert.equal(await total(storage), 1);
    });

    test("of a stateless run names no thread", async (storage) => {
      const assistant = await createAssistant(storage);
      const outcome = await storage.createRun(here, {
        run: newRun("hidden", "r1", { stateless: true }),
        expected: { assistant_revision: assistant.revision, thread_revision: null },
        create_thread: { thread_id: "hidden", metadata: {}, config: {}, stateless: true },
        claim: { token: "w", lease_until: 5000, trace },
        now: 1100,
      });
      assert.equal(outcome.kind, "created");
      assert.deepEqual(await storage.getTrace("r1"), createTraceRow("r1", 1100, { user_id: null, api_key: null }));
    });

    test("is one, however often the run is started, and outlives the run", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      await requireCreated(storage, assistant, "t", "r1", { claim: { token: "a", lease_until: 5000, trace } });
      // Requeued, so that the next attempt is the first again; then lost, so that the following one is the second.
      assert.equal(await storage.requeueRun(here, { thread_id: "t", run_id: "r1", token: "a" }, 2000), true);
      const again = { ...claimTerms("b"), now: 3000, lease_until: 4000, trace: { ...trace, project_id: "p2" } };
      assert.equal((await claimNext(storage, here, again))?.run.attempt, 1);
      assert.equal((await claimNext(storage, here, { ...again, token: "c", now: 5000 }))?.run.attempt, 2);
      assert.equal((await storage.getTrace("r1"))?.started_at, 1100);
      assert.equal((await storage.getTrace("r1"))?.project_id, "p1");
      await storage.stopRuns(here, { thread_id: "t", run_ids: ["r1"] }, "rollback", 6000);
      assert.equal(await storage.getRun(here, "r1"), null);
      assert.ok(await storage.getTrace("r1"));
      assert.equal(await total(storage), 1);
    });

    test("does not exist for runs that are only ended, nor without terms", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      await create(storage, assistant, "t", "r1", { claim: { token: "a", lease_until: 2000 } });
      assert.equal(await storage.getTrace("r1"), null);
      await storage.stopRuns(here, { thread_id: "t", run_ids: ["r1"] }, "interrupt", 1500);
      assert.ok(await claimNext(storage, here, { ...claimTerms("b"), trace }));
      assert.equal(await storage.getTrace("r1"), null);
      // Without a trace of the first attempt, later attempts have none.
      await createThread(storage, "t2");
      await create(storage, assistant, "t2", "r2", { claim: { token: "c", lease_until: 2000 } });
      const second = await claimNext(storage, here, { ...claimTerms("d"), trace });
      assert.deepEqual([second?.run.run_id, second?.run.attempt], ["r2", 2]);
      assert.equal(await storage.getTrace("r2"), null);
      assert.equal(await total(storage), 0);
    });

    test("is counted once in an hour that is already sealed", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      await sealAll(storage, 2 * DAY);
      await requireCreated(storage, assistant, "t", "r1", { claim: { token: "a", lease_until: 5000, trace } });
      assert.equal(await total(storage), 1);
      assert.equal(await storage.requeueRun(here, { thread_id: "t", run_id: "r1", token: "a" }, 2000), true);
      assert.ok(await claimNext(storage, here, { ...claimTerms("b"), now: 3000, trace }));
      assert.equal(await total(storage), 1);
      await createThread(storage, "t2");
      await requireCreated(storage, assistant, "t2", "r2");
      assert.ok(await claimNext(storage, here, { ...claimTerms("c"), trace: { ...trace, counted: false } }));
      await createThread(storage, "t3");
      await requireCreated(storage, assistant, "t3", "r3");
      assert.ok(await claimNext(storage, here, { ...claimTerms("d"), trace }));
      assert.equal(await total(storage), 2);
    });

    test("adds up the reported tokens and costs", async (storage) => {
      assert.equal(await storage.getTrace("r1"), null);
      await storage.addTraceUsage("r1", { tokens_in: 1, tokens_out: 1, cost_usd: 1 });
      await addTraces(storage, [createTraceRow("r1", 1000), createTraceRow("r2", 1000)]);
      assert.deepEqual((await storage.getTrace("r1"))?.usage, { tokens_in: 0, tokens_out: 0, cost_usd: 0 });
      await storage.addTraceUsage("r1", { tokens_in: 10, tokens_out: 2, cost_usd: 0.25 });
      await storage.addTraceUsage("r1", { tokens_in: 5, tokens_out: 0, cost_usd: 0.5 });
      assert.deepEqual((await storage.getTrace("r1"))?.usage, { tokens_in: 15, tokens_out: 2, cost_usd: 0.75 });
      assert.deepEqual((await storage.getTrace("r2"))?.usage, { tokens_in: 0, tokens_out: 0, cost_usd: 0 });
    });
  });

  api.describe("usage", () => {
    test("is counted from the start up to the end, which is excluded", async (storage) => {
      const times = [HOUR - 1, HOUR, 2 * HOUR - 1, 2 * HOUR, 3 * HOUR];
      await addTraces(
        storage,
        times.map((at) => createTraceRow(`at ${at}`, at)),
      );
      await addTraces(storage, [
        createTraceRow("off", 0, { counted: false }),
        createTraceRow("elsewhere", HOUR, { workspace_id: "w2" }),
      ]);
      for (const sealed of [0, 2 * HOUR, 5 * HOUR]) {
        await sealAll(storage, sealed);
        const inside = createQuery({ start: HOUR, end: 3 * HOUR, origin: HOUR, stride_ms: HOUR });
        assert.deepEqual(await storage.countUsage(inside), [
          { bucket: 0, dimension: "w1", traces: 2 },
          { bucket: 1, dimension: "w1", traces: 1 },
        ]);
        const millisecond = createQuery({ start: 2 * HOUR - 1, end: 2 * HOUR, origin: HOUR, stride_ms: HOUR });
        assert.deepEqual(await storage.countUsage(millisecond), [{ bucket: 0, dimension: "w1", traces: 1 }]);
        assert.deepEqual(await storage.countUsage(createQuery({ start: 4 * HOUR })), []);
        assert.deepEqual(await storage.countUsage(createQuery({ workspace_ids: [] })), []);
        assert.deepEqual(await storage.countUsage(createQuery({ workspace_ids: ["w1", "w1", "no"] })), [
          { bucket: 0, dimension: "w1", traces: 5 },
        ]);
      }
    });

    test("sums tokens and costs if requested, also in sealed hours", async (storage) => {
      const traces = [HOUR - 1, HOUR, HOUR, 2 * HOUR, DAY].map((at, i) =>
        createTraceRow(`r${i}`, at, { user_id: i === 2 ? null : "u1" }),
      );
      await addTraces(storage, [
        ...traces,
        createTraceRow("off", HOUR, { counted: false }),
        createTraceRow("w2", HOUR, { workspace_id: "w2" }),
      ]);
      for (const trace_id of [...traces.map((trace) => trace.trace_id), "off", "w2"]) {
        await storage.addTraceUsage(trace_id, { tokens_in: 2 ** 33, tokens_out: 2, cost_usd: 0.25 });
      }
      const query = createQuery({ start: HOUR, group_by: "user", tokens: true });
      for (const sealed of [0, DAY, 2 * DAY]) {
        await sealAll(storage, sealed);
        assert.deepEqual(await storage.countUsage(query), [
          { bucket: 0, dimension: "u1", traces: 2, tokens_in: 2 ** 34, tokens_out: 4, cost_usd: 0.5 },
          { bucket: 0, dimension: null, traces: 1, tokens_in: 2 ** 33, tokens_out: 2, cost_usd: 0.25 },
          { bucket: 1, dimension: "u1", traces: 1, tokens_in: 2 ** 33, tokens_out: 2, cost_usd: 0.25 },
        ]);
        assert.deepEqual(await storage.countUsage({ ...query, workspace_ids: [] }), []);
      }
    });

    test("sums tokens beyond the exact integers", async (storage) => {
      await addTraces(
        storage,
        ["r0", "r1", "r2"].map((trace_id) => createTraceRow(trace_id, HOUR)),
      );
      for (const trace_id of ["r0", "r1", "r2"]) {
        await storage.addTraceUsage(trace_id, { tokens_in: 2 ** 52, tokens_out: 0, cost_usd: 0 });
      }
      const [row] = await storage.countUsage(createQuery({ start: HOUR, tokens: true }));
      assert.equal(row?.tokens_in, 3 * 2 ** 52);
    });

    test("is ordered by code point, null last", async (storage) => {
      const users = [null, "b", "a", "B", "\u{10000}", "\uffee", "aa", null];
      const traces = users.map((user_id, i) => createTraceRow(`r${i}`, DAY, { user_id }));
      await addTraces(storage, traces);
      for (const sealed of [0, 10 * DAY]) {
        await sealAll(storage, sealed);
        const rows = await storage.countUsage(createQuery({ group_by: "user" }));
        assert.deepEqual(
          rows.map((row) => row.dimension),
          ["B", "a", "aa", "b", "\uffee", "\u{10000}", null],
        );
        assert.equal(rows.at(-1)?.traces, 2);
      }
    });

    test("counts an id once, also in sealed hours and in one call", async (storage) => {
      await addTraces(storage, [createTraceRow("r1", 1000), createTraceRow("r1", 2 * DAY), createTraceRow("r2", 1000)]);
      await addTraces(storage, [createTraceRow("r1", DAY, { workspace_id: "w2" })]);
      assert.deepEqual(await storage.getTrace("r1"), createTraceRow("r1", 1000));
      await sealAll(storage, 10 * DAY);
      await addTraces(storage, [
        createTraceRow("r2", 1000),
        createTraceRow("r3", DAY),
        createTraceRow("r3", DAY),
        createTraceRow("r4", 20 * DAY),
      ]);
      await addTraces(storage, [createTraceRow("r3", DAY), createTraceRow("off", DAY, { counted: false })]);
      assert.equal(await total(storage), 4);
      await sealAll(storage, 30 * DAY);
      assert.equal(await total(storage), 4);
      assert.equal(await total(storage, ["w2"]), 0);
    });

    test("is sealed one day at a time, gaps at once, and once by concurrent callers", async (storage) => {
      const days = [3, 3.5, 4, 400];
      await addTraces(
        storage,
        days.map((day, i) => createTraceRow(`r${i}`, day * DAY + 5)),
      );
      const turns = async (before: number): Promise<number> => {
        let count = 1;
        while (await storage.sealUsage(before)) count++;
        return count;
      };
      assert.equal(await turns(401 * DAY + HOUR - 1), 3);
      assert.equal(await total(storage), 4);
      assert.equal(await storage.sealUsage(401 * DAY), false);
      assert.equal(await storage.sealUsage(5), false);
      assert.equal(await total(storage), 4);

      await addTraces(
        storage,
        [500, 501, 502, 503].map((day) => createTraceRow(`r${day}`, day * DAY)),
      );
      await Promise.all(Array.from({ length: 5 }, () => sealAll(storage, 510 * DAY)));
      assert.equal(await total(storage), 8);
    });

    test("leaves the hour that has not closed", async (storage) => {
      await addTraces(storage, [createTraceRow("r1", 2 * HOUR), createTraceRow("r2", 3 * HOUR)]);
      assert.equal(await storage.sealUsage(3 * HOUR + 5), false);
      await addTraces(storage, [createTraceRow("r3", 2 * HOUR), createTraceRow("r4", 3 * HOUR)]);
      await sealAll(storage, 10 * HOUR);
      assert.deepEqual(await storage.countUsage(createQuery({ stride_ms: HOUR })), [
        { bucket: 2, dimension: "w1", traces: 2 },
        { bucket: 3, dimension: "w1", traces: 2 },
      ]);
    });

    for (const seed of createSeeds(api, 2)) {
      test(`equals a row-by-row count, with any seal, seed ${seed}`, async (storage) => {
        const { below, pick } = createDice(seed);
        const from = -2 * DAY;
        const moment = (): number => {
          const at = from + below(6 * DAY);
          // Many traces exactly at the start or end of an hour.
          return pick([at, Math.floor(at / HOUR) * HOUR, Math.floor(at / HOUR) * HOUR - 1]);
        };
        const stored: TraceRow[] = [];
        const add = async (count: number): Promise<void> => {
          const changes = Array.from({ length: count }, (_, i) =>
            createTraceRow(`r${stored.length + i}`, moment(), {
              workspace_id: pick(["w1", "w2", "w3"]),
              project_id: pick(["p1", "p2", "\u{1f600}"]),
              user_id: pick([null, "u1", "u2", "\uffee"]),
              api_key: pick([null, "k1", "k2"]),
              counted: below(10) > 0,
            }),
          );
          stored.push(...changes);
          await addTraces(storage, changes);
        };
        await add(200);
        const rounds = scaleByEffort(api, 150);
        for (let round = 0; round < rounds; round++) {
          if (round % 5 === 0) await storage.sealUsage(from + round * HOUR + below(HOUR));
          if (round % 7 === 0) await add(1 + below(20));
          const start = moment();
          const range = pick([1, 60_000, HOUR, 5 * HOUR, DAY, 3 * DAY, 7 * DAY]);
          const stride_ms = pick([HOUR, DAY, 7 * DAY, 90_000]);
          const query: UsageQuery = {
            workspace_ids: pick([["w1"], ["w2", "w3"], ["w1", "w2", "w3"], ["w4"]]),
            start,
            end: start + 1 + below(range),
            origin: Math.floor(start / pick([1, HOUR, DAY])) * pick([1, 1, 2]) + pick([0, 0, 5]),
            stride_ms,
            group_by: pick(GROUPS),
          };
          const aligned = { ...query, origin: Math.floor(start / DAY) * DAY, stride_ms: pick([HOUR, DAY]) };
          for (const range of [query, aligned]) {
            assert.deepEqual(await storage.countUsage(range), countRows(stored, range), JSON.stringify(range));
          }
        }
      });
    }
  });
}
