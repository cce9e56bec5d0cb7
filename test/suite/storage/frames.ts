/** Tests of frames and of retention. */
import assert from "node:assert/strict";
import type { ClaimedRun, Lease, RetentionLimits, Storage } from "../../../lib/storage/mod.ts";
import {
  checkpoint,
  claimNext,
  claimTerms,
  createAssistant,
  createThread,
  finish,
  frames,
  here,
  progress,
  requireCreated,
  type StorageTest,
  type SuiteApi,
  stateless,
} from "./material.ts";

async function resumableLease(storage: Storage): Promise<Lease> {
  const assistant = await createAssistant(storage);
  await createThread(storage, "t");
  const claim = { token: "token-r1", lease_until: 5000 };
  const outcome = await requireCreated(storage, assistant, "t", "r1", { run: { resumable: true }, claim });
  return (outcome.claimed as ClaimedRun).lease;
}

async function readSummary(storage: Storage, after: number, run_id = "r1"): Promise<string> {
  const list: string[] = [];
  for (let at = after; ; ) {
    const read = await storage.readFrames(here, run_id, at);
    if (read.length === 0) return list.join();
    for (const { id, event, data } of read) {
      assert.deepEqual(JSON.parse(data), { at: id });
      list.push(`${id} ${event}`);
      at = id;
    }
  }
}

export function frameTests(api: SuiteApi, test: StorageTest): void {
  api.describe("frames", () => {
    test("are returned in order, after any id, and a second save doubles none", async (storage) => {
      const lease = await resumableLease(storage);
      const save = (saved: ReturnType<typeof frames>) => storage.saveProgress(here, lease, saved, 1200);
      assert.equal(await save(frames(1, "a", "b")), true);
      assert.equal(await save(frames(3, "c")), true);
      assert.equal(await save(frames(1, "a", "b")), true);
      assert.equal(await save(frames(4, "d")), true);
      assert.equal(await save(frames(4, "d", "e", "f")), true, "with more than the first time");
      assert.equal(await save(frames(4, "d")), true, "and with less");
      assert.equal(await readSummary(storage, 0), "1 a,2 b,3 c,4 d,5 e,6 f");
      assert.equal(await readSummary(storage, 1), "2 b,3 c,4 d,5 e,6 f");
      assert.equal(await readSummary(storage, 3), "4 d,5 e,6 f");
      assert.equal(await readSummary(storage, 5), "6 f");
      assert.equal(await readSummary(storage, 6), "");
      assert.equal(await readSummary(storage, -1), "1 a,2 b,3 c,4 d,5 e,6 f");
      assert.deepEqual(await storage.readFrames(here, "r2", 0), []);
      const odd = { event: "messages|a:b", data: '{"at":7,"text":"\\u0000 é😀 \\"]["}' };
      await save({ ...progress([]), frames: { first_id: 7, list: [odd] } });
      assert.deepEqual(await storage.readFrames(here, "r1", 6), [{ id: 7, ...odd }]);
    });

    test("are returned whole, whatever they share with the one before", async (storage) => {
      const lease = await resumableLease(storage);
      const about = JSON.stringify({ node: "llm", path: ["a", "b"] });
      // The last two characters have the same second half.
      const texts = ["one", "two", "", "two", "three", "long ".repeat(500), "\n]\n", "😀", "\u{1FA00}"];
      const list = texts.flatMap((text, i) => [
        { event: "messages", data: `[${JSON.stringify({ text })},${about}]` },
        ...(i % 3 === 0 ? [{ event: "updates", data: about }] : []),
        ...(i % 4 === 0 ? [{ event: "values", data: JSON.stringify(text) }] : []),
      ]);
      await storage.saveProgress(here, lease, { ...progress([]), frames: { first_id: 1, list } }, 1200);
      const stored = list.map((frame, i) => ({ id: i + 1, ...frame }));
      for (const after of [0, 1, 7]) assert.deepEqual(await storage.readFrames(here, "r1", after), stored.slice(after));
    });

    test("are read in parts, and none is missing", async (storage) => {
      const lease = await resumableLease(storage);
      const long = "x".repeat(100_000);
      const list = Array.from({ length: 50 }, (_, i) => ({ event: "long", data: JSON.stringify({ at: i + 1, long }) }));
      await storage.saveProgress(here, lease, { ...progress([]), frames: { first_id: 1, list } }, 1200);
      const events = Array.from({ length: 300 }, () => "short");
      await storage.saveProgress(here, lease, frames(51, ...events), 1200);
      for (let i = 0; i < 200; i++) await storage.saveProgress(here, lease, frames(351 + i, "one"), 1200);
      const sizes: number[] = [];
      let last = 0;
      for (let read = await storage.readFrames(here, "r1", 0); read.length > 0; ) {
        sizes.push(read.reduce((sum, { data }) => sum + data.length, 0));
        for (const { id } of read) assert.equal(id, ++last);
        read = await storage.readFrames(here, "r1", last);
      }
      assert.equal(last, 550);
      assert.ok(sizes.length > 3, "in several parts");
      assert.ok(Math.max(...sizes) < 2 * 1024 * 1024, "none of them is large");
    });

    test("are stored only with the lease, with checkpoints or the end of the run", async (storage) => {
      const lease = await resumableLease(storage);
      const lost = { ...lease, token: "another" };
      assert.equal(await storage.saveProgress(here, lost, frames(1, "a"), 1200), false);
      const both = { ...frames(1, "a"), checkpoints: [checkpoint("c1", {})] };
      assert.equal(await storage.saveProgress(here, lease, both, 1200), true);
      assert.equal((await storage.getCheckpoint(here, "t", { ns: "" }))?.checkpoint_id, "c1");
      assert.equal(await storage.finishRun(here, lost, finish({ progress: frames(2, "z") })), null);
      assert.deepEqual(await storage.finishRun(here, lease, finish({ progress: frames(2, "b"), end_frame: 3 })), {
        next: null,
      });
      assert.equal(await storage.saveProgress(here, lease, frames(3, "late"), 1200), false);
      assert.equal(await readSummary(storage, 0), "1 a,2 b");
      assert.equal((await storage.getRun(here, "r1"))?.end_frame, 3);
    });

    test("continue after the newest stored one", async (storage) => {
      const lease = await resumableLease(storage);
      await storage.saveProgress(here, lease, frames(1, "a", "b"), 1200);
      const second = (await claimNext(storage, here, { ...claimTerms("w2"), now: 5000 })) as ClaimedRun;
      assert.equal(second.last_frame, 2);
      assert.equal(await storage.saveProgress(here, lease, frames(3, "late"), 5100), false);
      await storage.saveProgress(here, second.lease, frames(3, "c"), 5100);
      await storage.requeueRun(here, second.lease, 5200);
      assert.equal((await storage.getRun(here, "r1"))?.resumable, true);
      const third = (await claimNext(storage, here, { ...claimTerms("w3"), now: 5300 })) as ClaimedRun;
      assert.equal(third.last_frame, 3);
      assert.equal(await readSummary(storage, 0), "1 a,2 b,3 c");
    });
  });

  api.describe("retention", () => {
    const ages = { stateless_before: 0, frames_before: 0, keys_before: 0, features: { feedback: 0, webhooks: 0 } };
    const nothing: RetentionLimits = { ...ages, limit: 10, now: 9000 };

    test("deletes temporary runs and their hidden threads after their time", async (storage) => {
      const assistant = await createAssistant(storage);
      const end = async (id: string, now: number) => {
        const { lease } = await stateless(storage, assistant, id);
        await storage.finishRun(here, lease, finish({ now }));
      };
      for (const id of ["r1", "r2", "r3"]) await end(id, 2000);
      await end("young", 3000);
      await stateless(storage, assistant, "active");
      await createThread(storage, "thread-kept");
      const claim = { token: "w", lease_until: 5000 };
      const keptThread = await requireCreated(storage, assistant, "thread-kept", "kept", { claim });
      await storage.finishRun(here, (keptThread.claimed as ClaimedRun).lease, finish());
      const sweep = (stateless_before: number) =>
        storage.deleteExpired(here, { ...nothing, stateless_before, limit: 2 });
      assert.equal(await sweep(2000), 0);
      assert.equal(await sweep(3000), 2);
      assert.equal(await sweep(3000), 1);
      assert.equal(await sweep(3000), 0);
      for (const id of ["r1", "r2", "r3"]) {
        assert.equal(await storage.getRun(here, id), null);
        assert.equal(await storage.getThread(here, `thread-${id}`), null);
      }
      for (const id of ["young", "active", "kept"]) {
        assert.equal((await storage.getRun(here, id))?.run_id, id);
        assert.equal((await storage.getThread(here, `thread-${id}`))?.thread_id, `thread-${id}`);
      }
    });

    test("keeps temporary runs as long as their frames and keys", async (storage) => {
      const assistant = await createAssistant(storage);
      const idempotency = { route: "/runs", key: "k", body_hash: "h" };
      const framed = await stateless(storage, assistant, "framed", {
        run: { resumable: true, kwargs: { resumable: true } },
      });
      // Stored only for readers of other processes, so not kept longer.
      const passing = await stateless(storage, assistant, "passing", { run: { resumable: true } });
      await storage.finishRun(here, passing.lease, finish({ progress: frames(1, "a") }));
      const keyed = await stateless(storage, assistant, "keyed", { idempotency });
      await storage.finishRun(here, framed.lease, finish({ progress: frames(1, "a") }));
      await storage.finishRun(here, keyed.lease, finish());
      const late = { ...nothing, stateless_before: 9000 };
      const countRemaining = async () => [
        (await storage.getRun(here, "framed")) !== null,
        (await storage.getRun(here, "keyed")) !== null,
      ];
      while ((await storage.deleteExpired(here, late)) > 0);
      assert.equal(await storage.getRun(here, "passing"), null);
      assert.deepEqual(await countRemaining(), [true, true]);
      for (let i = 0; i < 3; i++) await storage.deleteExpired(here, { ...late, frames_before: 9000 });
      assert.deepEqual(await countRemaining(), [false, true]);
      for (let i = 0; i < 3; i++) await storage.deleteExpired(here, { ...late, keys_before: 9000 });
      assert.deepEqual(await countRemaining(), [false, false]);
      assert.equal(await storage.getThread(here, "thread-keyed"), null);
      assert.equal(await storage.deleteExpired(here, { ...late, frames_before: 9000, keys_before: 9000 }), 0);
    });

    test("deletes frames of ended runs, and marks the run", async (storage) => {
      const lease = await resumableLease(storage);
      await storage.saveProgress(here, lease, frames(1, "a", "b"), 1200);
      const late = { ...nothing, frames_before: 3000 };
      assert.equal(await storage.deleteExpired(here, late), 0, "it has not ended");
      await storage.finishRun(here, lease, finish({ end_frame: 3 }));
      assert.equal(await storage.deleteExpired(here, { ...late, frames_before: 2000 }), 0);
      assert.equal((await storage.getRun(here, "r1"))?.resumable, true);
      assert.ok((await storage.deleteExpired(here, late)) > 0);
      assert.equal(await storage.deleteExpired(here, late), 0);
      assert.deepEqual(await storage.readFrames(here, "r1", 0), []);
      const run = await storage.getRun(here, "r1");
      assert.deepEqual([run?.resumable, run?.end_frame], [false, 3]);
    });

    test("deletes many frames in steps, and none of another run", async (storage) => {
      const lease = await resumableLease(storage);
      const list = Array.from({ length: 250 }, (_, i) => ({ event: "e", data: "x".repeat(i % 2 ? 66_000 : 2) }));
      // Several megabytes at once: some database clients send at most 16.
      for (let first_id = 1; first_id <= 2500; first_id += list.length) {
        assert.ok(await storage.saveProgress(here, lease, { ...progress([]), frames: { first_id, list } }, 1200));
      }
      await storage.finishRun(here, lease, finish({ end_frame: 2501 }));
      const assistant = await storage.getAssistant(here, "a");
      assert.ok(assistant);
      const { claimed } = await requireCreated(storage, assistant, "t", "r2", {
        run: { resumable: true },
        claim: { token: "w", lease_until: 5000 },
      });
      await storage.saveProgress(here, (claimed as ClaimedRun).lease, frames(1, "a"), 1200);
      let sweeps = 0;
      while ((await storage.deleteExpired(here, { ...nothing, frames_before: 3000 })) > 0) sweeps++;
      assert.ok(sweeps > 1);
      assert.deepEqual(await storage.readFrames(here, "r1", 0), []);
      assert.equal((await storage.getRun(here, "r1"))?.resumable, false);
      assert.equal(await readSummary(storage, 0, "r2"), "1 a");
    });
  });
}
