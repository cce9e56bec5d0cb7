/** Tests of states that change without a run: initial states, updates, checkpoint metadata. */
import assert from "node:assert/strict";
import type { StoredCheckpoint } from "../../../lib/executor/contract.ts";
import type { JsonObject } from "../../../lib/json.ts";
import type {
  FinishRun,
  NewThreadState,
  Progress,
  SavedCheckpoint,
  Scope,
  Storage,
  ThreadRow,
} from "../../../lib/storage/mod.ts";
import {
  checkpoint,
  createAssistant,
  createClaimedRun,
  createFinishedRun,
  createPendingRun,
  createThread,
  finish,
  here,
  progress,
  type StorageTest,
  type SuiteApi,
  stateless,
  there,
  write,
} from "./material.ts";

/** Returns the scope of a caller who sees only threads of this owner. */
export const createOwnerScope = (owner: string): Scope => ({ ...here, filter: [{ key: "owner", equals: owner }] });

/** Returns a state with one checkpoint. */
export function createState(id: string, values: JsonObject, options: Partial<NewThreadState> = {}): NewThreadState {
  return { graph_id: "g", progress: progress([checkpoint(id, values)]), head: id, scalars: values, ...options };
}

export const listAllCheckpoints = (storage: Storage, thread_id: string): Promise<readonly StoredCheckpoint[]> =>
  storage.listCheckpoints(here, thread_id, { limit: 1000 });

export const ids = async (storage: Storage, thread_id: string): Promise<string> =>
  (await listAllCheckpoints(storage, thread_id)).map((stored) => stored.checkpoint_id).join();

export const thread = async (storage: Storage, thread_id: string): Promise<ThreadRow> =>
  (await storage.getThread(here, thread_id)) as ThreadRow;

export const findThreadIds = async (storage: Storage, metadata: JsonObject, values?: JsonObject): Promise<string> => {
  const query = { metadata, ...(values && { values }), limit: 50, offset: 0, sort_by: "thread_id" } as const;
  const { rows } = await storage.searchThreads(here, { ...query, sort_order: "asc" });
  return rows.map((row) => row.thread_id).join();
};

/** Returns the data of the writes on a checkpoint, in order. */
export const readState = async (storage: Storage, thread_id: string, checkpoint_id: string): Promise<string> => {
  const stored = await storage.getCheckpoint(here, thread_id, { ns: "", checkpoint_id });
  return (stored?.writes ?? []).map(({ task_id, idx, data }) => `${task_id}${idx}=${data}`).join(" ");
};

export function stateTests(api: SuiteApi, test: StorageTest): void {
  api.describe("a thread that is created with a state", () => {
    const terms = { thread_id: "t", metadata: { kind: "made" }, config: {}, stateless: false };

    test("has its checkpoints, writes and values, of no run", async (storage) => {
      const steps = progress(
        [checkpoint("c1", { a: 1 }), checkpoint("c2", { a: 2 }, "c1")],
        [write("c1", "b", 0, "x")],
      );
      const state = createState("c2", { a: 2 }, { progress: steps });
      const outcome = await storage.createThread(here, { ...terms, state }, 1000);
      assert.equal(outcome.kind, "created");
      const { head, graph_id, status, created_at } = outcome.thread;
      assert.deepEqual([head, graph_id, status, created_at], ["c2", "g", "idle", 1000]);
      assert.deepEqual(await thread(storage, "t"), outcome.thread);
      const [second, first] = await listAllCheckpoints(storage, "t");
      assert.deepEqual([second?.checkpoint_id, second?.parent_id, second?.run_id], ["c2", "c1", null]);
      assert.deepEqual([first?.values[0]?.data, second?.values[0]?.data], ["1", "2"]);
      assert.equal(await readState(storage, "t", "c1"), 'b0="x"');
      assert.equal(await findThreadIds(storage, { kind: "made" }, { a: 2 }), "t");
      assert.equal(await findThreadIds(storage, {}, { a: 3 }), "");
    });

    test("is created as a whole or not at all", async (storage) => {
      await createThread(storage, "t", { kind: "old" });
      for (const id of ["c1", "c2"]) {
        const state = createState(
          id,
          { a: 1 },
          { progress: progress([checkpoint(id, { a: 1 })], [write(id, "b", 0, 1)]) },
        );
        assert.equal((await storage.createThread(here, { ...terms, state }, 1000)).kind, "exists");
      }
      assert.equal(await ids(storage, "t"), "");
      assert.equal((await thread(storage, "t")).head, null);
      const states = Array.from({ length: 8 }, (_, i) => createState(`d${i}`, { a: i }));
      const outcomes = await Promise.all(
        states.map((state) => storage.createThread(here, { ...terms, thread_id: "u", state }, 1000)),
      );
      assert.equal(outcomes.filter(({ kind }) => kind === "created").length, 1);
      assert.equal(await ids(storage, "u"), (await thread(storage, "u")).head);
      const again = { ...terms, thread_id: "u", state: states[0] as NewThreadState };
      assert.equal((await storage.createThread(here, again, 1000)).kind, "exists");
      assert.equal(await ids(storage, "u"), (await thread(storage, "u")).head);
    });

    test("accepts runs as any other thread", async (storage) => {
      const assistant = await createAssistant(storage);
      const state = createState(
        "c1",
        { a: 1 },
        { progress: progress([checkpoint("c1", {})], [write("c1", "b", 0, "made")]) },
      );
      await storage.createThread(here, { ...terms, state }, 1000);
      const next = progress([checkpoint("c2", {}, "c1")], [write("c1", "b", 0, "run")]);
      const { lease } = await createClaimedRun(storage, assistant, "t", "r1");
      await storage.saveProgress(here, lease, next, 1200);
      assert.equal(await readState(storage, "t", "c1"), 'b0="run"');
      await storage.stopRuns(here, { thread_id: "t", run_ids: ["r1"] }, "rollback", 1300);
      assert.deepEqual([await ids(storage, "t"), await readState(storage, "t", "c1")], ["c1", 'b0="made"']);
    });
  });

  api.describe("a state update", () => {
    test("moves the head and changes nothing else of the thread", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t", { a: 1 });
      const interrupts = { task: [{ id: "i", value: 1 }] };
      const end: Partial<FinishRun["thread"]> = { head: "c1", status: "error", interrupts, error: { error: "E" } };
      await createFinishedRun(storage, assistant, "t", "r1", end, { progress: progress([checkpoint("c1", { n: 1 })]) });
      const before = await thread(storage, "t");
      const update = createState("c2", { n: 2 }, { progress: progress([checkpoint("c2", { n: 2 }, "c1")]) });
      assert.equal(await storage.writeState(here, "t", { ...update, expected_head: "c1" }, 3000), "written");
      const changed = { head: "c2", graph_id: "g", updated_at: 3000, state_updated_at: 3000 };
      assert.deepEqual(await thread(storage, "t"), { ...before, ...changed });
      const newest = await storage.getCheckpoint(here, "t", { ns: "" });
      assert.deepEqual([newest?.checkpoint_id, newest?.parent_id, newest?.run_id], ["c2", "c1", null]);
      assert.equal(await ids(storage, "t"), "c2,c1");
      assert.deepEqual(
        [await findThreadIds(storage, {}, { n: 2 }), await findThreadIds(storage, {}, { n: 1 })],
        ["t", ""],
      );
      // The first update of a thread without a head.
      await createThread(storage, "u");
      assert.equal(
        await storage.writeState(here, "u", { ...createState("d1", {}), expected_head: null }, 3000),
        "written",
      );
      assert.equal((await thread(storage, "u")).head, "d1");
    });

    test("closes pending interrupts if no task follows, and keeps failed ones", async (storage) => {
      const assistant = await createAssistant(storage);
      const interrupts = { task: [{ id: "i", value: 1 }] };
      const error = { error: "E" };
      const writeAndRead = async (id: string, end: Partial<FinishRun["thread"]>, ends: boolean): Promise<unknown> => {
        await createThread(storage, id);
        const first = { progress: progress([checkpoint("c1", { n: 1 })]) };
        await createFinishedRun(storage, assistant, id, `r-${id}`, { head: "c1", interrupts, ...end }, first);
        const state = { ...createState("c2", {}), expected_head: "c1", ends };
        assert.equal(await storage.writeState(here, id, state, 3000), "written");
        const row = await thread(storage, id);
        return [row.status, row.interrupts, row.error];
      };
      assert.deepEqual(await writeAndRead("closed", { status: "interrupted" }, true), ["idle", {}, null]);
      assert.deepEqual(await writeAndRead("open", { status: "interrupted" }, false), ["interrupted", interrupts, null]);
      assert.deepEqual(await writeAndRead("failed", { status: "error", error }, true), ["error", interrupts, error]);
      const { total } = await storage.searchThreads(here, {
        ...{ status: "interrupted", waiting: true, limit: 10, offset: 0 },
        ...{ sort_by: "thread_id", sort_order: "asc" },
      });
      assert.equal(total, 1);
    });

    test("writes nothing while a run is active, on another head, or on an unknown thread", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t", { owner: "ada" });
      await createFinishedRun(
        storage,
        assistant,
        "t",
        "r1",
        { head: "c1" },
        { progress: progress([checkpoint("c1", { n: 1 })]) },
      );
      const before = await thread(storage, "t");
      const first = await listAllCheckpoints(storage, "t");
      const steps = progress([checkpoint("x", { n: 9 }, "c1")], [write("c1", "b", 0, "x")]);
      const state = { ...createState("x", { n: 9 }, { progress: steps }), expected_head: "c1" };
      const untouched = async (): Promise<void> => assert.deepEqual(await listAllCheckpoints(storage, "t"), first);

      assert.equal(await storage.writeState(here, "t", { ...state, expected_head: "c0" }, 3000), "stale");
      assert.equal(await storage.writeState(here, "t", { ...state, expected_head: null }, 3000), "stale");
      assert.equal(await storage.writeState(there, "t", state, 3000), "not_found");
      assert.equal(await storage.writeState(here, "u", state, 3000), "not_found");
      assert.equal(await storage.writeState(createOwnerScope("eve"), "t", state, 3000), "not_found");
      assert.deepEqual(await thread(storage, "t"), before);
      await untouched();

      assert.equal((await createPendingRun(storage, assistant, "t", "r2")).kind, "created");
      assert.equal(await storage.writeState(here, "t", state, 3000), "busy");
      assert.equal(await storage.writeState(here, "t", { ...state, expected_head: "c0" }, 3000), "busy");
      assert.equal(await storage.writeState(createOwnerScope("eve"), "t", state, 3000), "not_found");
      const terms = { token: "k", lease_until: 5000, graph_ids: ["echo"], now: 1200 };
      const outcome = await storage.claimRun(here, terms);
      assert.ok(outcome.kind === "claimed");
      assert.equal(await storage.writeState(here, "t", state, 3000), "busy");
      await untouched();
      assert.equal((await thread(storage, "t")).head, "c1");
      await storage.finishRun(here, outcome.claimed.lease, finish());
      assert.equal(await storage.writeState(createOwnerScope("ada"), "t", state, 3000), "written");
      assert.equal(await ids(storage, "t"), "x,c1");

      const hidden = await stateless(storage, assistant, "r9");
      assert.equal(await storage.writeState(here, "thread-r9", { ...state, expected_head: null }, 3000), "not_found");
      await storage.finishRun(here, hidden.lease, finish());
      assert.equal(await storage.writeState(here, "thread-r9", { ...state, expected_head: null }, 3000), "not_found");
      assert.equal(await ids(storage, "thread-r9"), "");
    });

    test("is accepted once of many concurrent ones", async (storage) => {
      await createThread(storage, "t");
      const outcomes = await Promise.all(
        Array.from({ length: 10 }, (_, i) => {
          const state = { ...createState(`c${i}`, { i }), expected_head: null };
          return storage.writeState(here, "t", state, 3000);
        }),
      );
      assert.deepEqual(outcomes.toSorted(), [...Array.from({ length: 9 }, () => "stale"), "written"]);
      assert.equal(await ids(storage, "t"), (await thread(storage, "t")).head);
    });

    test("has its writes between those of earlier and later runs, and no rollback removes them", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const answer = (data: string): Progress => progress([], [write("c1", "b", 0, data)]);
      const first = progress([checkpoint("c1", {})], [write("c1", "b", 0, "first"), write("c1", "a", 0, "kept")]);
      await createFinishedRun(storage, assistant, "t", "r1", { head: "c1" }, { progress: first });
      const update = async (data: string, id: string, expected_head: string): Promise<void> => {
        const steps = progress([checkpoint(id, {}, expected_head)], [write("c1", "b", 0, data)]);
        const state = { ...createState(id, {}, { progress: steps }), expected_head };
        assert.equal(await storage.writeState(here, "t", state, 3000), "written");
      };
      await update("update", "c2", "c1");
      assert.equal(await readState(storage, "t", "c1"), 'a0="kept" b0="update"');
      const rollback = async (run_id: string): Promise<void> => {
        const { lease } = await createClaimedRun(storage, assistant, "t", run_id);
        await storage.saveProgress(here, lease, { ...answer("later"), checkpoints: [checkpoint("x", {})] }, 1200);
        assert.equal(await readState(storage, "t", "c1"), 'a0="kept" b0="later"');
        await storage.stopRuns(here, { thread_id: "t", run_ids: [run_id] }, "rollback", 1300);
        await storage.releaseThreadLock(here, lease);
        assert.equal(await ids(storage, "t"), (await thread(storage, "t")).head === "c2" ? "c2,c1" : "c3,c2,c1");
      };
      await rollback("r2");
      assert.equal(await readState(storage, "t", "c1"), 'a0="kept" b0="update"');
      // r0 sorts before all other run ids, and the empty id of updates before r0.
      await createFinishedRun(storage, assistant, "t", "r0", {}, { progress: answer("r0") });
      assert.equal(await readState(storage, "t", "c1"), 'a0="kept" b0="r0"');
      await update("again", "c3", "c2");
      assert.equal(await readState(storage, "t", "c1"), 'a0="kept" b0="again"');
      await rollback("r3");
      assert.equal(await readState(storage, "t", "c1"), 'a0="kept" b0="again"');
      const seqs = (await storage.listRuns(here, "t", { above: 0, limit: 10, offset: 0 })).map(({ run_id, seq }) => [
        run_id,
        seq,
      ]);
      assert.deepEqual(
        seqs.map(([run_id]) => run_id),
        ["r1", "r0"],
      );
      assert.ok(Number(seqs[0]?.[1]) < Number(seqs[1]?.[1]));
    });

    test("does not wait for the executor of a rolled-back run, and keeps the new state", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const { lease } = await createClaimedRun(storage, assistant, "t", "r1");
      await storage.stopRuns(here, { thread_id: "t", run_ids: ["r1"] }, "rollback", 1300);
      assert.notEqual((await thread(storage, "t")).lock, null);
      assert.equal(
        await storage.writeState(here, "t", { ...createState("c1", {}), expected_head: null }, 1400),
        "written",
      );
      assert.equal(await storage.saveProgress(here, lease, progress([checkpoint("x", {})]), 1500), false);
      assert.equal(await ids(storage, "t"), "c1");
    });
  });

  api.describe("a note on a checkpoint", () => {
    test("is merged into its metadata", async (storage) => {
      const noted: SavedCheckpoint = { ...checkpoint("c1", { a: 1 }), metadata: { source: "loop", deep: { a: 1 } } };
      const inner: SavedCheckpoint = { ...checkpoint("c1", {}), ns: "sub" };
      const state = createState("c1", {}, { progress: progress([noted, inner]) });
      await storage.createThread(
        here,
        { thread_id: "t", metadata: { owner: "ada" }, config: {}, stateless: false, state },
        1000,
      );
      const note = (scope: Scope, checkpoint_id: string, metadata: JsonObject, ns = ""): Promise<boolean> =>
        storage.annotateCheckpoint(scope, "t", { ns, checkpoint_id }, metadata);
      assert.equal(await note(here, "c1", { deep: { b: 2 }, new: "x" }), true);
      assert.equal(await note(createOwnerScope("ada"), "c1", { more: null }), true);
      assert.equal(await note(createOwnerScope("eve"), "c1", { eve: 1 }), false);
      assert.equal(await note(here, "c2", { a: 1 }), false);
      assert.equal(await note(here, "c1", { a: 1 }, "sub|other"), false);
      assert.equal(await note(there, "c1", { a: 1 }), false);
      assert.equal(await storage.annotateCheckpoint(here, "u", { ns: "", checkpoint_id: "c1" }, {}), false);
      await Promise.all(["p", "q", "r"].map((key) => note(here, "c1", { [key]: 1 })));
      const stored = await storage.getCheckpoint(here, "t", { ns: "", checkpoint_id: "c1" });
      const all = { source: "loop", deep: { b: 2 }, new: "x", more: null, p: 1, q: 1, r: 1 };
      assert.deepEqual(stored?.metadata, all);
      assert.equal((await storage.getCheckpoint(here, "t", { ns: "sub" }))?.metadata.p, undefined);
      assert.equal((await storage.listCheckpoints(here, "t", { limit: 9, metadata: { q: 1 } })).length, 1);
    });
  });
}
