/** Tests of checkpoints, values and writes. */
import assert from "node:assert/strict";
import type { ChannelValue } from "../../../lib/executor/contract.ts";
import type { Json } from "../../../lib/json.ts";
import type { SavedCheckpoint, SavedValue, Storage } from "../../../lib/storage/mod.ts";
import {
  checkpoint,
  createAssistant,
  createClaimedRun,
  createFinishedRun,
  createLease,
  createThread,
  here,
  progress,
  type StorageTest,
  type SuiteApi,
  write,
} from "./material.ts";

export function checkpointTests(api: SuiteApi, test: StorageTest): void {
  api.describe("checkpoints", () => {
    test("have a size, which is counted channel by channel", async (storage) => {
      const nothing = { count: 0, bytes: 0 };
      const none = { checkpoints: nothing, channel_values: { ...nothing, by_channel: {} }, pending_writes: nothing };
      assert.deepEqual(await storage.getThreadSize(here, "t"), none);
      const lease = await createLease(storage);
      assert.deepEqual(await storage.getThreadSize(here, "t"), none);
      const blob = new Uint8Array([0, 255, 1]);
      const first: SavedCheckpoint = {
        ...checkpoint("c1", {}),
        payload: { type: "bin", data: blob },
        metadata: { é: 1 },
        versions: { a: "v1" },
        values: [
          { channel: "a", version: "v1", type: "json", data: '"é"' },
          { channel: "__proto__", version: "v1", type: "bin", data: blob },
        ],
      };
      const second: SavedCheckpoint = {
        ...first,
        ns: "child:1",
        versions: {},
        values: [{ channel: "a", version: "v2", type: "json", data: "12" }],
      };
      const writes = [{ ...write("c1", "task", 0, "x"), ns: "" }];
      await storage.saveProgress(here, lease, progress([first, second], writes), 1200);
      const size = await storage.getThreadSize(here, "t");
      // 3 of the payload, {"é":1}, and {"a":"v1"} or {}.
      assert.deepEqual(size.checkpoints, { count: 2, bytes: 3 + 8 + 10 + 3 + 8 + 2 });
      assert.deepEqual(Object.entries(size.channel_values.by_channel), [
        ["__proto__", { versions: 1, bytes: 3 }],
        ["a", { versions: 2, bytes: 4 + 2 }],
      ]);
      assert.deepEqual([size.channel_values.count, size.channel_values.bytes], [3, 9]);
      assert.deepEqual(size.pending_writes, { count: 1, bytes: 3 });
      assert.deepEqual(await storage.getThreadSize({ deployment: "elsewhere" }, "t"), none);
    });

    test("return the start of a channel", async (storage) => {
      const lease = await createLease(storage);
      const json = (channel: string, version: string, data: string, extends_version?: string): SavedValue => ({
        ...{ channel, version, type: "json", data },
        ...(extends_version === undefined ? {} : { extends_version }),
      });
      const long = `["${"é".repeat(10_000)}"]`;
      const first: SavedCheckpoint = {
        ...checkpoint("c1", {}),
        versions: { list: "v1", long: "v1", blob: "v1" },
        values: [
          json("list", "v1", "[1,2]"),
          json("long", "v1", long),
          { channel: "blob", version: "v1", type: "bin", data: new Uint8Array([1]) },
        ],
      };
      const versions = { list: "v3", long: "v1", none: "v9" };
      const values = [json("list", "v2", "[3]", "v1"), json("list", "v3", "[4]", "v2")];
      const second: SavedCheckpoint = { ...checkpoint("c2", {}), parent_id: "c1", versions, values };
      await storage.saveProgress(here, lease, progress([first, second]), 1200);
      const opening = async (checkpoint_id: string | null, channel: string, options: { run_id?: string } = {}) =>
        await storage.readValueStart(here, "t", { checkpoint_id, ...options }, channel);
      const [channels, older] = [
        ["list", "long", "none"],
        ["list", "long", "blob"],
      ];
      assert.deepEqual(await opening("c2", "list"), { channels, start: "[1,2]" });
      assert.deepEqual(await opening("c1", "list"), { channels: older, start: "[1,2]" });
      assert.deepEqual(await opening("c2", "long"), { channels, start: long.slice(0, 8192) });
      assert.deepEqual(await opening("c1", "blob"), { channels: older, start: null });
      assert.deepEqual(await opening("c2", "none"), { channels, start: null });
      assert.deepEqual(await opening("c2", "other"), { channels, start: null });
      assert.deepEqual(await opening("c1", "list", { run_id: lease.run_id }), { channels, start: "[1,2]" });
      assert.deepEqual(await opening("c1", "list", { run_id: "other" }), { channels: older, start: "[1,2]" });
      assert.equal(await opening(null, "list"), null);
      assert.equal(await opening("c3", "list"), null);
      assert.equal(await storage.readValueStart(here, "u", { checkpoint_id: "c1" }, "list"), null);
      assert.equal(
        await storage.readValueStart({ deployment: "elsewhere" }, "t", { checkpoint_id: "c1" }, "list"),
        null,
      );
    });

    test("return text and bytes unchanged, in their order", async (storage) => {
      const lease = await createLease(storage);
      const bytes = new Uint8Array([0, 255, 1, 128]);
      const odd = 'ch"a.n$[n]el \\ é😀\n';
      const first: SavedCheckpoint = {
        ns: "",
        checkpoint_id: "c1",
        parent_id: null,
        payload: { type: "bin", data: bytes },
        metadata: { source: "input", step: -1, text: "a\0b" },
        versions: Object.fromEntries([
          [odd, "v1"],
          ["__proto__", "v1"],
          ["unknown", "v1"],
        ]),
        values: [
          { channel: odd, version: "v1", type: "json", data: '{"b":1, "a":1e400}' },
          { channel: "__proto__", version: "v1", type: "bin", data: bytes },
        ],
        created_at: 1234,
      };
      const second: SavedCheckpoint = { ...checkpoint("c2", {}, "c1"), versions: first.versions, values: [] };
      assert.equal(await storage.saveProgress(here, lease, progress([first, second]), 1200), true);
      const stored = await storage.getCheckpoint(here, "t", { ns: "", checkpoint_id: "c1" });
      assert.deepEqual(stored, { ...first, run_id: "r1", writes: [] });
      const newest = await storage.getCheckpoint(here, "t", { ns: "" });
      assert.equal(newest?.checkpoint_id, "c2");
      assert.equal(newest?.parent_id, "c1");
      assert.deepEqual(newest?.values, first.values, "values are found by their version");
      assert.equal(await storage.getCheckpoint(here, "t", { ns: "", checkpoint_id: "c3" }), null);
      assert.equal(await storage.getCheckpoint(here, "t", { ns: "sub" }), null);
      assert.equal(await storage.getCheckpoint(here, "u", { ns: "" }), null);
    });

    test("are replaced by a second save, at their position", async (storage) => {
      const lease = await createLease(storage);
      const withValue = (id: string, x: Json): SavedCheckpoint => checkpoint(id, { x }, null, "v1");
      await storage.saveProgress(here, lease, progress([withValue("c1", 1), checkpoint("c2", {})]), 1200);
      await storage.saveProgress(here, lease, progress([{ ...withValue("c1", 2), metadata: { again: true } }]), 1300);
      const all = await storage.listCheckpoints(here, "t", { limit: 10 });
      assert.deepEqual(
        all.map((stored) => stored.checkpoint_id),
        ["c2", "c1"],
      );
      assert.deepEqual(all[1]?.metadata, { again: true });
      assert.equal(all[1]?.values[0]?.data, "2");
    });

    test("of another run are never changed or claimed", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const withValue = (x: Json): SavedCheckpoint => ({ ...checkpoint("c1", { x }, null, "v1"), metadata: { x } });
      await createFinishedRun(storage, assistant, "t", "r1", { head: "c1" }, { progress: progress([withValue(1)]) });
      const { lease } = await createClaimedRun(storage, assistant, "t", "r2");
      await storage.saveProgress(here, lease, progress([withValue(2)]), 1200);
      const look = async () => {
        const stored = await storage.getCheckpoint(here, "t", { ns: "", checkpoint_id: "c1" });
        return [stored?.run_id, stored?.metadata, stored?.values[0]?.data];
      };
      assert.deepEqual(await look(), ["r1", { x: 1 }, "1"]);
      await storage.stopRuns(here, { thread_id: "t", run_ids: ["r2"] }, "rollback", 2000);
      assert.deepEqual(await look(), ["r1", { x: 1 }, "1"]);
    });

    test("are found by run and namespace, newest only if requested", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const inner = { ...checkpoint("s1", {}), ns: "sub|1" };
      const saved = progress([checkpoint("c1", {}), inner, checkpoint("c2", {})]);
      await createFinishedRun(storage, assistant, "t", "r1", { head: "c2" }, { progress: saved });
      await createFinishedRun(
        storage,
        assistant,
        "t",
        "r2",
        { head: "c3" },
        { progress: progress([checkpoint("c3", {})]) },
      );
      const id = async (at: Parameters<Storage["getCheckpoint"]>[2]) =>
        (await storage.getCheckpoint(here, "t", at))?.checkpoint_id;
      assert.equal(await id({ ns: "" }), "c3");
      assert.equal(await id({ ns: "", run_id: "r1" }), "c2");
      assert.equal(await id({ ns: "sub|1" }), "s1");
      assert.equal(await id({ ns: "sub|1", run_id: "r2" }), undefined);
      assert.equal(await id({ ns: "", run_id: "r3" }), undefined);
    });

    test("are listed newest first, by namespace, age and metadata", async (storage) => {
      const lease = await createLease(storage);
      const all = Array.from({ length: 450 }, (_, i): SavedCheckpoint => {
        const base = checkpoint(`c${String(i).padStart(3, "0")}`, { i });
        return {
          ...base,
          ns: i % 3 === 2 ? "sub" : "",
          metadata: { step: i, mod: [i % 5], deep: { even: i % 2 === 0 } },
        };
      });
      await storage.saveProgress(here, lease, progress(all), 1200);
      const list = async (query: Parameters<Storage["listCheckpoints"]>[2]) =>
        (await storage.listCheckpoints(here, "t", query)).map((stored) => stored.metadata.step);
      assert.deepEqual(await list({ limit: 4 }), [449, 448, 447, 446]);
      assert.deepEqual(await list({ ns: "", limit: 3 }), [448, 447, 445]);
      assert.deepEqual(await list({ ns: "sub", limit: 2, before: "c449" }), [446, 443]);
      assert.deepEqual(await list({ limit: 2, before: "c002" }), [1, 0]);
      assert.deepEqual(await list({ ns: "", limit: 5, before: "c003" }), [1, 0]);
      assert.deepEqual(await list({ limit: 5, before: "c000" }), []);
      assert.deepEqual(await list({ limit: 5, before: "nowhere" }), []);
      assert.deepEqual(await list({ limit: 2, metadata: { mod: [4], deep: { even: true } } }), [444, 434]);
      assert.deepEqual(await list({ limit: 2, metadata: { step: 3 } }), [3], "however far back");
      assert.deepEqual(await list({ limit: 2, metadata: { mod: [1] }, ns: "sub", before: "c041" }), [26, 11]);
      assert.deepEqual(await list({ limit: 2, metadata: { mod: [9] } }), []);
      assert.deepEqual(await list({ limit: 0, metadata: { mod: [1] } }), []);
      const [stored] = await storage.listCheckpoints(here, "t", { limit: 1, before: "c010" });
      assert.deepEqual(
        stored,
        await storage.getCheckpoint(here, "t", { ns: stored?.ns ?? "", checkpoint_id: "c009" }),
        "with values and writes",
      );
      assert.equal(stored?.values[0]?.data, "9");
    });

    test("are complete for a long run that was saved in few calls, in their order", async (storage) => {
      const lease = await createLease(storage);
      const bytes = (n: number) => new Uint8Array([n, 0, 255]);
      const saved = Array.from({ length: 40 }, (_, i): SavedCheckpoint => {
        const [a, b] = [`${i % 3 ? i : i - 1}`, `${i}`];
        return {
          ...checkpoint(`c${String(i).padStart(2, "0")}`, {}),
          versions: { a, b },
          values: [
            { channel: "a", version: `${i}`, type: "json", data: `"\\u0000 ${i}"` },
            { channel: "b", version: b, type: "raw", data: bytes(i) },
          ],
        };
      });
      const written = saved.map(({ checkpoint_id }, i) => write(checkpoint_id, "task", i, i));
      assert.equal(
        await storage.saveProgress(here, lease, progress(saved.slice(0, 21), written.slice(0, 21)), 1200),
        true,
      );
      const lost = { ...lease, token: "another" };
      assert.equal(await storage.saveProgress(here, lost, progress(saved.slice(21), written.slice(21)), 1200), false);
      assert.equal((await storage.listCheckpoints(here, "t", { limit: 50 })).length, 21);
      assert.equal(await storage.saveProgress(here, lease, progress(saved.slice(21), written.slice(21)), 1200), true);
      const all = await storage.listCheckpoints(here, "t", { limit: 50 });
      assert.deepEqual(
        all.map((row) => row.checkpoint_id),
        saved.map((row) => row.checkpoint_id).reverse(),
      );
      for (const [i, { values, writes }] of all.toReversed().entries()) {
        const a = i % 3 ? i : i - 1;
        assert.deepEqual(
          values.filter((savedValue) => savedValue.channel === "a").map((savedValue) => savedValue.data),
          a < 0 ? [] : [`"\\u0000 ${a}"`],
        );
        assert.deepEqual(
          values
            .filter((savedValue) => savedValue.channel === "b")
            .map((savedValue) => [...(savedValue.data as Uint8Array)]),
          [[...bytes(i)]],
        );
        assert.deepEqual(
          writes.map((stored) => [stored.idx, stored.data]),
          [[i, `${i}`]],
        );
      }
    });

    test("append deltas to their base", async (storage) => {
      const lease = await createLease(storage);
      const parts: readonly [data: string | Uint8Array, extended: string | undefined, whole: Json][] = [
        ["[]", undefined, []],
        ['[{"a":"]["}]', "v1", [{ a: "][" }]],
        ["[]", "v2", [{ a: "][" }]],
        [" [ 2 , 3 ] ", "v3", [{ a: "][" }, 2, 3]],
        [new TextEncoder().encode("[4]"), "v4", [{ a: "][" }, 2, 3, 4]],
        ["[9]", undefined, [9]],
        ["[8]", "v5", [{ a: "][" }, 2, 3, 4, 8]],
      ];
      const saved = parts.map(([data, extended], i): SavedCheckpoint => {
        const savedValue: SavedValue = { channel: "m", version: `v${i + 1}`, type: "json", data };
        const values = extended === undefined ? [savedValue] : [{ ...savedValue, extends_version: extended }];
        return { ...checkpoint(`c${i + 1}`, {}), versions: { m: `v${i + 1}` }, values };
      });
      await storage.saveProgress(here, lease, progress(saved), 1200);
      const all = await storage.listCheckpoints(here, "t", { limit: 10 });
      assert.deepEqual(
        all.map(({ values: [value] }) => [value?.version, JSON.parse(value?.data as string)]).reverse(),
        parts.map(([, , whole], i) => [`v${i + 1}`, whole]),
      );
      for (const { checkpoint_id, values } of all) {
        const alone = await storage.getCheckpoint(here, "t", { ns: "", checkpoint_id });
        const { base, ...listed } = values[0] as ChannelValue;
        assert.deepEqual(alone?.values, [listed]);
        if (base !== undefined) assert.equal(`${base}]`, listed.data);
        assert.equal(alone?.values[0] && "extends_version" in alone.values[0], false);
        const { data, delta_length = 0 } = values[0] as ChannelValue;
        const alwaysWhole = checkpoint_id === "c1" || checkpoint_id === "c6";
        assert.equal(
          delta_length,
          alwaysWhole ? 0 : data.length,
          "everything outside the last whole copy, here an empty one",
        );
      }
    });

    test("return writes in order; those of the newest run take precedence", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const first = progress(
        [checkpoint("c1", {})],
        [write("c1", "b", 1, "old"), write("c1", "b", 0, "x"), write("c1", "a", -2, "y"), write("c1", "b", 1, "new")],
      );
      await createFinishedRun(storage, assistant, "t", "r1", { head: "c1" }, { progress: first });
      const readCheckpoints = async () => {
        const stored = await storage.getCheckpoint(here, "t", { ns: "", checkpoint_id: "c1" });
        return stored?.writes.map(({ task_id, idx, channel, data }) => `${task_id}${idx}:${channel}=${data}`).join(" ");
      };
      assert.equal(await readCheckpoints(), 'a-2:ch="y" b0:ch="x" b1:ch="new"');
      // r0 sorts before r1 but is the later run.
      const answer = progress([], [write("c1", "b", 1, "answer"), write("c1", "c", 0, "z")]);
      await createFinishedRun(storage, assistant, "t", "r0", {}, { progress: answer });
      assert.equal(await readCheckpoints(), 'a-2:ch="y" b0:ch="x" b1:ch="answer" c0:ch="z"');
      await storage.deleteRun(here, "t", "r0", 9_000);
      assert.equal(
        await readCheckpoints(),
        'a-2:ch="y" b0:ch="x" b1:ch="answer" c0:ch="z"',
        "the state stays as it is",
      );
    });
  });
}
