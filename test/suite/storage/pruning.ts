/** Tests of pruning: threads are deleted or reduced to their newest state. */

import assert from "node:assert/strict";
import type { JsonObject } from "../../../lib/json.ts";
import type { AssistantRow, Progress, SavedCheckpoint, Storage, ThreadRow } from "../../../lib/storage/mod.ts";
import { countThreads } from "../counts.ts";
import { randomHistory, type Versions } from "./copies.ts";
import {
  checkpoint,
  create,
  createAssistant,
  createClaimedRun,
  createFinishedRun,
  createLease,
  createPendingRun,
  createSeeds,
  createThread,
  finish,
  frames,
  here,
  progress,
  type StorageTest,
  type SuiteApi,
  stateless,
  there,
  write,
} from "./material.ts";
import { createOwnerScope, findThreadIds, ids, listAllCheckpoints } from "./states.ts";

const keep = (storage: Storage, ...thread_ids: string[]): Promise<readonly string[]> =>
  storage.pruneThreads(here, { thread_ids: thread_ids, strategy: "keep_latest" }, 9000);

/** Returns a checkpoint of a subgraph that ran under a root checkpoint. */
const createSubgraphCheckpoint = (
  root: string,
  ns: string,
  checkpoint_id: string,
  metadata: JsonObject = {},
): SavedCheckpoint => ({
  ...checkpoint(checkpoint_id, { inner: checkpoint_id }),
  ns,
  metadata: { ...metadata, parents: { "": root } },
});

/** The stored ones of these versions of a channel, read through a probe checkpoint that names them. */
async function stored(
  storage: Storage,
  assistant: AssistantRow,
  thread_id: string,
  ns: string,
  channel: string,
  versions: readonly string[],
): Promise<string> {
  const { lease } = await createClaimedRun(storage, assistant, thread_id, `probe ${thread_id} ${ns} ${channel}`);
  const probes = versions.map((version) => ({
    ...checkpoint(`probe ${version}`, {}),
    ns,
    versions: { [channel]: version },
  }));
  await storage.saveProgress(here, lease, progress(probes), 1200);
  const there: string[] = [];
  for (const version of versions) {
    const probe = await storage.getCheckpoint(here, thread_id, { ns, checkpoint_id: `probe ${version}` });
    if (probe?.values.length) there.push(version);
  }
  await storage.stopRuns(here, { thread_id, run_ids: [lease.run_id] }, "rollback", 1300);
  await storage.releaseThreadLock(here, lease);
  return there.join();
}

export function pruningTests(api: SuiteApi, test: StorageTest): void {
  api.describe("pruning by deletion", () => {
    test("deletes all rows of a thread, and skips busy and unknown threads", async (storage) => {
      const assistant = await createAssistant(storage);
      const owned = { owner: "ada" };
      for (const id of ["idle", "pending", "running", "left"]) await createThread(storage, id, owned);
      const tokens = { tokens: [["k", "token"]] as const, life_ms: 9e9, workspace_id: "w", project_id: "p" };
      assert.equal((await create(storage, assistant, "idle", "r1", { run: { feedback: tokens } })).kind, "created");
      await storage.stopRuns(here, { thread_id: "idle", run_ids: ["r1"] }, "interrupt", 1200);
      assert.notEqual(await storage.getFeedbackToken("token"), null);
      await createFinishedRun(
        storage,
        assistant,
        "idle",
        "r2",
        { head: "c1" },
        { progress: progress([checkpoint("c1", { a: 1 })]) },
      );
      await createPendingRun(storage, assistant, "pending", "r3");
      await createClaimedRun(storage, assistant, "running", "r4");
      const hidden = await stateless(storage, assistant, "r5");
      await storage.finishRun(here, hidden.lease, finish());
      const cron = {
        cron_id: "cron",
        assistant_id: "a",
        thread_id: "idle",
        on_run_completed: null,
        schedule: "* * * * *",
        timezone: null,
        end_time: null,
        enabled: true,
        next_run_date: 9e9,
        payload: {},
        metadata: {},
        user_id: null,
        auth_user: null,
      };
      await storage.createCron(here, cron, 1000);

      const named = ["idle", "gone", "pending", "idle", "running", "thread-r5"];
      assert.deepEqual(await storage.pruneThreads(there, { thread_ids: named, strategy: "delete" }, 2000), []);
      assert.deepEqual(
        await storage.pruneThreads(createOwnerScope("eve"), { thread_ids: named, strategy: "delete" }, 2000),
        [],
      );
      assert.deepEqual(await storage.pruneThreads(here, { thread_ids: [], strategy: "delete" }, 2000), []);
      assert.equal(await findThreadIds(storage, owned), "idle,left,pending,running");
      assert.deepEqual(
        await storage.pruneThreads(createOwnerScope("ada"), { thread_ids: named, strategy: "delete" }, 2000),
        ["idle"],
      );
      assert.deepEqual(await storage.pruneThreads(here, { thread_ids: named, strategy: "delete" }, 2000), []);

      assert.equal(await findThreadIds(storage, owned), "left,pending,running");
      assert.deepEqual([await storage.getThread(here, "idle"), await ids(storage, "idle")], [null, ""]);
      assert.equal(await findThreadIds(storage, {}, { a: 1 }), "running", "a thread that runs may hold anything");
      assert.deepEqual([await storage.getRun(here, "r1"), await storage.getRun(here, "r2")], [null, null]);
      assert.equal(await storage.getFeedbackToken("token"), null);
      assert.equal(await storage.getCron(here, "cron"), null);
      assert.equal((await storage.getThread(here, "thread-r5"))?.stateless, true);
      assert.deepEqual(
        [(await storage.getRun(here, "r3"))?.status, (await storage.getRun(here, "r4"))?.status],
        ["pending", "running"],
      );
      const { revision } = await createThread(storage, "idle", owned, 3000);
      assert.ok(revision >= 3000);
      assert.equal(await ids(storage, "idle"), "");
    });

    test("handles many threads at once", async (storage) => {
      const all = Array.from({ length: 30 }, (_, i) => `t${String(i).padStart(2, "0")}`);
      for (const id of all) await createThread(storage, id, { x: 1 });
      const answers = await Promise.all(
        [1, 2, 3].map(() => storage.pruneThreads(here, { thread_ids: all.slice(1), strategy: "delete" }, 2000)),
      );
      assert.deepEqual(answers.flat().toSorted(), all.slice(1), "each once");
      assert.equal(await findThreadIds(storage, { x: 1 }), "t00");
      assert.equal(await countThreads(storage, here, { metadata: { x: 1 } }), 1);
    });
  });

  api.describe("pruning to the newest state", () => {
    test("keeps the head with its pending writes, and the runs", async (storage) => {
      const assistant = await createAssistant(storage);
      for (const id of ["t", "busy", "empty", "other"]) await createThread(storage, id);
      const steps = progress(
        [checkpoint("c1", { n: 1 }), checkpoint("c2", { n: 2 }, "c1"), checkpoint("c3", { n: 3 }, "c2")],
        [write("c1", "a", 0, "old"), write("c3", "b", 0, "asked")],
      );
      const { lease } = await createClaimedRun(storage, assistant, "t", "r1");
      await storage.saveProgress(here, lease, frames(1, "values"), 1200);
      const end = { head: "c3", interrupts: { b: [] }, error: null, scalars: { n: 3 } };
      await storage.finishRun(here, lease, finish({ progress: steps, thread: { ...end, status: "interrupted" } }));
      await createFinishedRun(
        storage,
        assistant,
        "t",
        "r2",
        {},
        { progress: progress([], [write("c3", "b", 0, "answer")]) },
      );
      for (const id of ["other", "busy"]) {
        await createFinishedRun(
          storage,
          assistant,
          id,
          `r-${id}`,
          { head: "c2" },
          { progress: progress(steps.checkpoints.slice(0, 2)) },
        );
      }
      await createPendingRun(storage, assistant, "busy", "r9");
      const [row, before] = [await storage.getThread(here, "t"), await storage.getCheckpoint(here, "t", { ns: "" })];

      assert.deepEqual(
        await storage.pruneThreads(createOwnerScope("ada"), { thread_ids: ["t"], strategy: "keep_latest" }, 9000),
        [],
      );
      assert.deepEqual((await keep(storage, "t", "busy", "t", "gone", "empty")).toSorted(), ["empty", "t"]);
      assert.deepEqual(await storage.getThread(here, "t"), row);
      assert.deepEqual(await listAllCheckpoints(storage, "t"), [{ ...before, parent_id: null }]);
      assert.deepEqual(
        before?.writes.map(({ data }) => data),
        ['"answer"'],
      );
      assert.deepEqual([await ids(storage, "busy"), await ids(storage, "other")], ["c2,c1", "c2,c1"]);
      assert.deepEqual(
        [(await storage.getRun(here, "r1"))?.status, (await storage.getRun(here, "r2"))?.seq],
        ["success", 2],
      );
      assert.equal((await storage.readFrames(here, "r1", 0)).length, 1);
      assert.equal(await findThreadIds(storage, {}, { n: 3 }), "t");
      assert.equal(await stored(storage, assistant, "t", "", "n", ["c1", "c2", "c3"]), "c3");

      // A pruned checkpoint that is saved again does not get its old writes back.
      const again = progress([checkpoint("c1", {}, "c3")], [write("c3", "b", 0, "later")]);
      await createFinishedRun(storage, assistant, "t", "r3", { head: "c1" }, { progress: again });
      const [newest, keptCheckpoint] = await listAllCheckpoints(storage, "t");
      assert.deepEqual([newest?.checkpoint_id, newest?.parent_id, newest?.writes], ["c1", "c3", []]);
      assert.deepEqual(
        keptCheckpoint?.writes.map(({ data }) => data),
        ['"later"'],
        "later runs still count",
      );
    });

    test("keeps the whole of a list that grew by deltas over many versions", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const name = (i: number): string => `v${String(i).padStart(3, "0")}`;
      const saved = Array.from({ length: 120 }, (_, i): SavedCheckpoint => {
        const tail = i % 50 === 0 ? {} : { extends_version: name(i - 1) };
        const odd = 'ch"a.n$[n]el \\ é😀';
        return {
          ...checkpoint(`c${name(i)}`, {}, i === 0 ? null : `c${name(i - 1)}`),
          versions: { list: name(i), [odd]: "1" },
          values: [
            { channel: "list", version: name(i), type: "json", data: `[${i}]`, ...tail },
            ...(i === 0 ? [{ channel: odd, version: "1", type: "json", data: "true" }] : []),
          ],
        };
      });
      for (const [i, head] of ["cv059", "cv119"].entries()) {
        const part = progress(saved.slice(i * 60, i * 60 + 60));
        await createFinishedRun(storage, assistant, "t", `r${i}`, { head }, { progress: part });
      }
      const before = await storage.getCheckpoint(here, "t", { ns: "" });
      assert.deepEqual(await keep(storage, "t"), ["t"]);
      const after = await storage.getCheckpoint(here, "t", { ns: "" });
      assert.deepEqual(after, { ...before, parent_id: null });
      const list = after?.values.find((savedValue) => savedValue.channel === "list");
      assert.deepEqual(
        JSON.parse(list?.data as string),
        Array.from({ length: 20 }, (_, i) => 100 + i),
      );
      assert.equal(after?.values.length, 2);
      const all = Array.from({ length: 120 }, (_, i) => name(i));
      assert.equal(await stored(storage, assistant, "t", "", "list", all), all.slice(100).join());
    });

    test("keeps the newest checkpoint of each subgraph that belongs to the head", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const saved = [
        checkpoint("c1", {}),
        createSubgraphCheckpoint("c1", "sub:1", "a1"),
        createSubgraphCheckpoint("c1", "memory", "m1"),
        checkpoint("c2", {}, "c1"),
        // With durability `exit`, the subgraph of the head may be stored before the head.
        createSubgraphCheckpoint("c3", "sub:3", "b1"),
        createSubgraphCheckpoint("c3", "sub:3", "b2"),
        createSubgraphCheckpoint("c3", "sub:3|deep:4", "d1"),
        createSubgraphCheckpoint("c2", "sub:2", "e1"),
        checkpoint("c3", {}, "c2"),
        { ...createSubgraphCheckpoint("", "own:5", "f1"), metadata: {} },
      ];
      const writes = [
        { ...write("b1", "x", 0, "old"), ns: "sub:3" },
        { ...write("b2", "x", 0, "asked"), ns: "sub:3" },
      ];
      await createFinishedRun(storage, assistant, "t", "r1", { head: "c3" }, { progress: progress(saved, writes) });
      const at = (ns: string) => storage.getCheckpoint(here, "t", { ns });
      const before = await Promise.all(["", "sub:3", "sub:3|deep:4", "memory", "own:5"].map(at));
      assert.deepEqual(await keep(storage, "t"), ["t"]);
      assert.deepEqual(
        await Promise.all(["", "sub:3", "sub:3|deep:4", "memory", "own:5"].map(at)),
        before.map((row) => ({ ...row, parent_id: null })),
      );
      assert.equal((await at("sub:3"))?.writes[0]?.data, '"asked"');
      assert.equal(await ids(storage, "t"), "f1,c3,d1,b2,m1");
      assert.equal(await stored(storage, assistant, "t", "sub:3", "inner", ["b1", "b2"]), "b2");
      assert.equal(await stored(storage, assistant, "t", "sub:2", "inner", ["e1"]), "");
    });

    test("keeps the ancestors with a part of the head: writes to channels that are not stored whole each time", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const step = (i: number, versions: Readonly<Record<string, string>>): SavedCheckpoint => ({
        ...checkpoint(`c${i}`, {}, i === 0 ? null : `c${i - 1}`),
        versions,
        // `next` names the next node. It becomes empty without a write.
        values: Object.entries(versions)
          .filter(([channel, version]) => (channel === "log" && version === "2") || version === "full")
          .map(([channel, version]) => ({ channel, version, type: "json", data: '"whole"' })),
      });
      const put = (i: number, ...channels: string[]): Progress["writes"][number] => ({
        ...write(`c${i}`, "task", 0, i),
        writes: channels.map((channel, idx) => ({ channel, idx, type: "json", data: `"${channel} ${i}"` })),
      });
      const saved = [
        step(0, {}),
        step(1, { log: "1", next: "full" }),
        step(2, { log: "2", next: "empty" }),
        step(3, { log: "2", next: "empty" }),
        step(4, { log: "4", next: "empty" }),
        step(5, { log: "4", next: "empty", late: "5" }),
        step(6, { log: "6", next: "empty", late: "5" }),
      ];
      const writes = [
        put(0, "log", "next"),
        put(1, "log"),
        put(3, "log"),
        put(4, "late"),
        put(5, "log"),
        put(6, "log"),
      ];
      await createFinishedRun(storage, assistant, "t", "r1", { head: "c6" }, { progress: progress(saved, writes) });
      const before = await listAllCheckpoints(storage, "t");
      assert.deepEqual(await keep(storage, "t"), ["t"]);
      // c3 names the version that c2 has stored; it is stored whole.
      const expected = before
        .slice(0, 4)
        .map((row) => (row.checkpoint_id === "c3" ? { ...row, parent_id: null } : row));
      assert.deepEqual(await listAllCheckpoints(storage, "t"), expected);
      assert.deepEqual(await keep(storage, "t"), ["t"]);
      assert.deepEqual(await listAllCheckpoints(storage, "t"), expected);
      const whole = { ...step(7, { log: "full", next: "empty" }) };
      await createFinishedRun(storage, assistant, "t", "r2", { head: "c7" }, { progress: progress([whole]) });
      assert.deepEqual(await keep(storage, "t"), ["t"]);
      assert.equal(await ids(storage, "t"), "c7");
    });

    test("ends if checkpoints name each other as their parents", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const half = (id: string, parent: string, version: string): SavedCheckpoint => ({
        ...checkpoint(id, {}, parent),
        versions: { log: version },
      });
      const put = (id: string): Progress["writes"][number] => ({
        ...write(id, "task", 0, id),
        writes: [{ channel: "log", idx: 0, type: "json", data: "1" }],
      });
      const saved = progress([half("c1", "c2", "1"), half("c2", "c1", "2")], [put("c1"), put("c2")]);
      await createFinishedRun(storage, assistant, "t", "r1", { head: "c2" }, { progress: saved });
      assert.deepEqual(await keep(storage, "t"), ["t"]);
      assert.equal(await ids(storage, "t"), "c2,c1");
    });

    test("keeps no checkpoint of a thread without a head", async (storage) => {
      const lease = await createLease(storage);
      await storage.finishRun(here, lease, finish({ progress: progress([{ ...checkpoint("s1", {}), ns: "memory" }]) }));
      assert.deepEqual(await keep(storage, "t"), ["t"]);
      assert.equal(await ids(storage, "t"), "");
    });

    for (const seed of createSeeds(api, 4)) {
      test(`keeps the newest states and stores nothing else, seed ${seed}`, async (storage) => {
        const versions = await randomHistory(storage, "t", seed);
        await randomHistory(storage, "u", seed + 10);
        const { head } = (await storage.getThread(here, "t")) as ThreadRow;
        const before = await listAllCheckpoints(storage, "t");
        const otherCheckpoints = await listAllCheckpoints(storage, "u");
        assert.deepEqual(await keep(storage, "t"), ["t"]);
        const headIndex = before.findIndex((row) => row.ns === "" && row.checkpoint_id === head);
        const belongs = before.filter(({ ns, checkpoint_id, metadata }, i) => {
          if (ns === "") return checkpoint_id === head;
          if (before.findIndex((row) => row.ns === ns) !== i) return false;
          return !ns.includes(":") || (metadata.parents as JsonObject)[""] === head || i < headIndex;
        });
        assert.deepEqual(
          await listAllCheckpoints(storage, "t"),
          belongs.map((row) => ({ ...row, parent_id: null })),
        );
        assert.deepEqual(await listAllCheckpoints(storage, "u"), otherCheckpoints);
        await assertOnlyNeeded(storage, versions, belongs);
      });
    }
  });
}

/** Checks that only the versions these checkpoints need are stored. */
async function assertOnlyNeeded(
  storage: Storage,
  versions: Versions,
  needing: readonly { readonly ns: string; readonly versions: Readonly<Record<string, string>> }[],
): Promise<void> {
  const needed = new Set<string>();
  for (const { versions: of } of needing) {
    for (let at: string | undefined = of.list; at !== undefined; at = versions.get(at)?.extended) needed.add(at);
  }
  const [assistant] = (
    await storage.searchAssistants(here, { limit: 1, offset: 0, sort_by: "name", sort_order: "asc" })
  ).rows;
  for (const ns of ["", "still"]) {
    const ids = [...versions.keys()].filter((version) => versions.get(version)?.ns === ns);
    const there = await stored(storage, assistant as AssistantRow, "t", ns, "list", ids);
    assert.equal(there, ids.filter((version) => needed.has(version)).join());
  }
}
