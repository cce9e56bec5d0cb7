/** Tests of thread copies, and a thread with a random history to copy and prune. */
import assert from "node:assert/strict";
import type { StoredCheckpoint } from "../../../lib/executor/contract.ts";
import type { NewThreadState, Progress, SavedCheckpoint, Scope, Storage } from "../../../lib/storage/mod.ts";
import { createDice } from "../workload.ts";
import {
  checkpoint,
  createAssistant,
  createClaimedRun,
  createFinishedRun,
  createSeeds,
  createThread,
  finish,
  here,
  newRun,
  progress,
  request,
  type StorageTest,
  type SuiteApi,
  stateless,
  there,
  write,
} from "./material.ts";
import { createOwnerScope, createState, findThreadIds, ids, listAllCheckpoints, readState, thread } from "./states.ts";
export function copyTests(api: SuiteApi, test: StorageTest): void {
  api.describe("a copy of a thread", () => {
    const copy = (storage: Storage, expected_revision: number, to = "copy", scope = here) =>
      storage.copyThread(scope, { from: "t", expected_revision, thread_id: to, metadata: { copied: true } }, 4000);

    test("has its whole state and no runs", async (storage) => {
      const assistant = await createAssistant(storage);
      const { thread: copiedThread } = await storage.createThread(
        here,
        {
          thread_id: "t",
          metadata: { a: 1 },
          config: { tags: ["x"] },
          stateless: false,
          ttl: { strategy: "delete", ttl_ms: 9e9 },
        },
        1000,
      );
      const interrupts = { task: [{ id: "i", value: "why?" }] };
      const threadCheckpoint: SavedCheckpoint = {
        ...checkpoint("c2", { n: 1 }, "c1"),
        metadata: { thread_id: "t", run_id: "r1" },
      };
      const foreignCheckpoint: SavedCheckpoint = {
        ...checkpoint("c1", { n: 0 }),
        metadata: { thread_id: "elsewhere" },
      };
      await createFinishedRun(
        storage,
        assistant,
        "t",
        "r1",
        { head: "c2", status: "interrupted", interrupts, scalars: { n: 1 } },
        { progress: progress([foreignCheckpoint, threadCheckpoint], [write("c2", "task", -3, "why?")]) },
      );
      const before = [await thread(storage, "t"), await listAllCheckpoints(storage, "t")];
      const outcome = await copy(storage, copiedThread.revision);
      assert.ok(outcome.kind === "copied");
      const { revision, ttl, ...row } = outcome.thread;
      assert.deepEqual(row, {
        thread_id: "copy",
        created_at: 4000,
        updated_at: 4000,
        state_updated_at: 4000,
        metadata: { copied: true },
        config: { tags: ["x"] },
        graph_id: "echo",
        status: "interrupted",
        head: "c2",
        interrupts,
        error: null,
        running: null,
        lock: null,
        stateless: false,
        records_all: false,
      });
      assert.deepEqual(ttl, { strategy: "delete", ttl_ms: 9e9, expires_at: 9e9 + 4000 });
      assert.deepEqual(await thread(storage, "copy"), outcome.thread);
      assert.deepEqual([await thread(storage, "t"), await listAllCheckpoints(storage, "t")], before);
      assert.deepEqual(await storage.listRuns(here, "copy", { limit: 9, offset: 0 }), []);
      const [head, first] = await listAllCheckpoints(storage, "copy");
      assert.deepEqual(head, {
        ...(before[1] as StoredCheckpoint[])[0],
        metadata: { thread_id: "copy", run_id: "r1" },
      });
      assert.deepEqual(first, (before[1] as StoredCheckpoint[])[1]);
      assert.equal(await findThreadIds(storage, { copied: true }), "copy");
      assert.deepEqual(
        [await findThreadIds(storage, {}, { n: 1 }), await findThreadIds(storage, { a: 1 })],
        ["copy,t", "t"],
      );
      assert.ok(revision > 0);
    });

    test("continues separately: a later run answers it, and neither thread changes the other", async (storage) => {
      const assistant = await createAssistant(storage);
      const { revision } = await createThread(storage, "t");
      for (const id of ["r5", "r6", "r7"]) {
        const steps = progress([checkpoint(`c-${id}`, {})], [write("c-r5", "task", 0, id)]);
        await createFinishedRun(storage, assistant, "t", id, { head: `c-${id}` }, { progress: steps });
      }
      assert.equal((await copy(storage, revision)).kind, "copied");
      // Its id sorts before the ids of the other runs with writes, but it is the latest run.
      const { lease, thread: copied } = await createClaimedRun(storage, assistant, "copy", "r0");
      assert.equal(copied.head, "c-r7");
      const steps = progress([checkpoint("d", {}, "c-r7")], [write("c-r5", "task", 0, "answer")]);
      await storage.saveProgress(here, lease, steps, 1200);
      assert.deepEqual(
        [await readState(storage, "copy", "c-r5"), await readState(storage, "t", "c-r5")],
        ['task0="answer"', 'task0="r7"'],
      );
      await storage.stopRuns(here, { thread_id: "copy", run_ids: ["r0"] }, "rollback", 1300);
      assert.equal(await readState(storage, "copy", "c-r5"), 'task0="r7"');
      const update = {
        ...createState("e", {}, { progress: progress([checkpoint("e", {})], [write("c-r5", "task", 0, "u")]) }),
      };
      assert.equal(await storage.writeState(here, "copy", { ...update, expected_head: "c-r7" }, 1400), "written");
      assert.equal(await readState(storage, "copy", "c-r5"), 'task0="u"');
      assert.equal(await storage.deleteThread(here, "t"), true);
      assert.equal(await ids(storage, "copy"), "e,c-r7,c-r6,c-r5");
    });

    test("of a busy thread has the state from before the active runs, and none of their writes", async (storage) => {
      const assistant = await createAssistant(storage);
      const { revision } = await createThread(storage, "t");
      const first = progress([checkpoint("c1", { n: 1 })], [write("c1", "task", 0, "asked")]);
      await createFinishedRun(storage, assistant, "t", "r1", { head: "c1", scalars: { n: 1 } }, { progress: first });
      const before = await listAllCheckpoints(storage, "t");
      const { lease } = await createClaimedRun(storage, assistant, "t", "r2");
      const steps = progress([checkpoint("c2", { n: 2 }, "c1")], [write("c1", "task", 0, "answered")]);
      assert.equal(await storage.saveProgress(here, lease, steps, 1200), true);
      assert.equal(await ids(storage, "t"), "c2,c1");
      const outcome = await copy(storage, revision);
      assert.ok(outcome.kind === "copied");
      const { head, status, running } = outcome.thread;
      assert.deepEqual([head, status, running], ["c1", "idle", null]);
      assert.deepEqual(await thread(storage, "copy"), outcome.thread);
      assert.equal(await ids(storage, "copy"), "c1");
      assert.deepEqual(
        (await listAllCheckpoints(storage, "copy")).map(({ values }) => values),
        before.map(({ values }) => values),
      );
      assert.equal(await findThreadIds(storage, {}, { n: 1 }), "copy,t");
      assert.ok(await storage.finishRun(here, lease, finish()));
      assert.equal(await ids(storage, "copy"), "c1");
    });

    test("is rejected if the thread has changed or does not exist, or the target exists", async (storage) => {
      const assistant = await createAssistant(storage);
      const { revision } = await createThread(storage, "t", { owner: "ada" });
      await createFinishedRun(
        storage,
        assistant,
        "t",
        "r1",
        { head: "c1" },
        { progress: progress([checkpoint("c1", { n: 1 })]) },
      );
      const refused = async (...args: [number, string?, Scope?]): Promise<string> =>
        (await copy(storage, ...args)).kind;
      assert.equal(await refused(revision + 1), "stale");
      assert.equal(await refused(revision, "copy", there), "not_found");
      assert.equal(await refused(revision, "copy", createOwnerScope("eve")), "not_found");
      assert.equal(await refused(revision, "t"), "exists");
      await createThread(storage, "taken", { copied: true });
      assert.equal(await refused(revision, "taken"), "exists");
      assert.equal(await ids(storage, "taken"), "");
      assert.equal(await storage.getThread(here, "copy"), null);
      assert.equal(await ids(storage, "copy"), "");
      await storage.updateThread(here, "t", ({ metadata }) => ({ metadata: { ...metadata, b: 1 } }), 2000);
      assert.equal(await refused(revision), "stale");
      const { lease } = await stateless(storage, assistant, "r9");
      await storage.finishRun(here, lease, finish());
      const hidden = await thread(storage, "thread-r9");
      const from = { from: "thread-r9", expected_revision: hidden.revision, thread_id: "copy", metadata: {} };
      assert.equal((await storage.copyThread(here, from, 4000)).kind, "not_found");
      const now = (await thread(storage, "t")).revision;
      const outcomes = await Promise.all([1, 2, 3].map(() => copy(storage, now, "copy", createOwnerScope("ada"))));
      assert.deepEqual(outcomes.map(({ kind }) => kind).toSorted(), ["copied", "exists", "exists"]);
      assert.equal(await ids(storage, "copy"), "c1");
    });

    for (const seed of createSeeds(api, 3)) {
      test(`is equal in every checkpoint, seed ${seed}`, async (storage) => {
        await randomHistory(storage, "t", seed);
        const { revision, head } = await thread(storage, "t");
        assert.equal((await copy(storage, revision)).kind, "copied");
        const all = await listAllCheckpoints(storage, "t");
        assert.ok(all.length > 10);
        assert.deepEqual(await listAllCheckpoints(storage, "copy"), all);
        for (const { ns, checkpoint_id } of all) {
          const at = { ns, checkpoint_id };
          assert.deepEqual(await storage.getCheckpoint(here, "copy", at), await storage.getCheckpoint(here, "t", at));
        }
        assert.equal((await thread(storage, "copy")).head, head);
      });
    }
  });
}

/** The channel versions that `randomHistory` has stored, and the version that each of them extends. */
export type Versions = Map<string, { readonly ns: string; readonly extended: string | undefined }>;

/** Makes runs, some rolled back, and state updates on one thread: forks, subgraphs, extended lists, answers on old heads. */
export async function randomHistory(storage: Storage, thread_id: string, seed: number): Promise<Versions> {
  const { below, pick } = createDice(seed);
  const assistant = await createAssistant(storage);
  await createThread(storage, thread_id);
  const versions: Versions = new Map();
  let count = 0;
  let head: string | null = null;
  const stored: SavedCheckpoint[] = [];
  const steps = (from: string | null): { progress: Progress; head: string; added: SavedCheckpoint[] } => {
    const added: SavedCheckpoint[] = [];
    let parent = from;
    for (let remaining = 1 + below(4); remaining > 0; remaining--) {
      const at = ++count;
      const id = `c${String(at).padStart(4, "0")}`;
      const before = stored
        .concat(added)
        .find((candidate) => candidate.ns === "" && candidate.checkpoint_id === parent);
      const list = before?.versions.list;
      const extended = list !== undefined && below(4) > 0 ? list : undefined;
      versions.set(id, { ns: "", extended });
      added.push({
        ...checkpoint(id, {}, parent),
        versions: { ...before?.versions, list: id, ...(below(2) ? { other: id } : {}) },
        values: [
          {
            channel: "list",
            version: id,
            type: "json",
            data: `[${at}]`,
            ...(extended && { extends_version: extended }),
          },
          { channel: "other", version: id, type: "bin", data: new Uint8Array([at]) },
        ],
      });
      for (const ns of ["still", `task:${id}`, `task:${id}|inner:${id}`].slice(0, below(4))) {
        const version = `${id} ${ns}`;
        versions.set(version, { ns, extended: undefined });
        const inner = checkpoint(version, {}, null);
        const values = [{ channel: "list", version, type: "json", data: `[${at}]` }];
        added.push({ ...inner, ns, metadata: { parents: { "": id } }, versions: { list: version }, values });
      }
      parent = id;
    }
    const places = stored.concat(added).filter((row) => row.ns === "");
    const writes = Array.from({ length: below(4) }, (_, i) =>
      write(pick(places).checkpoint_id, `t${below(2)}`, i, ++count),
    );
    return { progress: progress(added, writes), head: parent as string, added };
  };
  for (let i = 0; i < 14; i++) {
    const roots = stored.filter((row) => row.ns === "");
    const from = roots.length > 0 && below(4) === 0 ? pick(roots).checkpoint_id : head;
    const { progress, head: reached, added } = steps(from);
    const fate = below(4);
    if (fate === 0) {
      const state: NewThreadState & { expected_head: string | null } = {
        graph_id: "echo",
        progress,
        head: reached,
        scalars: {},
        expected_head: head,
      };
      assert.equal(await storage.writeState(here, thread_id, state, 1000 + i), "written");
    } else {
      const run_id = `${thread_id} run${(i * 5) % 14}`;
      const outcome = await storage.createRun(here, {
        ...(await request(storage, assistant, thread_id, run_id)),
        run: newRun(thread_id, run_id),
        claim: { token: run_id, lease_until: 5000 },
      });
      assert.ok(outcome.kind === "created" && outcome.claimed);
      const { lease } = outcome.claimed;
      await storage.saveProgress(here, lease, progress, 1200);
      if (fate === 1) {
        await storage.stopRuns(here, { thread_id, run_ids: [run_id] }, "rollback", 1300);
        await storage.releaseThreadLock(here, lease);
        for (const row of added) versions.delete(row.checkpoint_id);
        continue;
      }
      const end = finish();
      await storage.finishRun(here, lease, { ...end, thread: { ...end.thread, head: reached } });
    }
    stored.push(...added);
    head = reached;
  }
  return versions;
}
