/** The conformance tests of Storage. Run them on a new adapter: `storageSuite({ describe, it }, () => open())`. */

import assert from "node:assert/strict";
import type { AssistantRow, Storage } from "../../lib/storage/mod.ts";
import { countAssistants, countThreads } from "./counts.ts";
import { admissionTests } from "./storage/admission.ts";
import { assistantTests } from "./storage/assistants.ts";
import { batchTests } from "./storage/batches.ts";
import { callTests } from "./storage/calls.ts";
import { checkpointTests } from "./storage/checkpoints.ts";
import { claimTests } from "./storage/claims.ts";
import { copyTests } from "./storage/copies.ts";
import { creationTests } from "./storage/creation.ts";
import { cronTests } from "./storage/crons.ts";
import { deliveryTests } from "./storage/deliveries.ts";
import { endTests } from "./storage/ends.ts";
import { eventTests } from "./storage/events.ts";
import { feedbackTests } from "./storage/feedback.ts";
import { filterTests } from "./storage/filter-oracle.ts";
import { visibilityTests } from "./storage/filters.ts";
import { frameTests } from "./storage/frames.ts";
import { identityTests } from "./storage/identity.ts";
import { itemTests } from "./storage/items.ts";
import {
  checkpoint,
  claimNext,
  claimTerms,
  createAssistant,
  createClaimedRun,
  createPendingRun,
  createSeeds,
  createThread,
  finish,
  here,
  progress,
  type StorageTest,
  type SuiteApi,
  there,
} from "./storage/material.ts";
import { overviewTests } from "./storage/overview.ts";
import { pruningTests } from "./storage/pruning.ts";
import { pushTests } from "./storage/pushes.ts";
import { runListTests } from "./storage/run-lists.ts";
import { stateTests } from "./storage/states.ts";
import { stoppingTests } from "./storage/stopping.ts";
import { threadExpiryTests } from "./storage/thread-expiry.ts";
import { threadTests } from "./storage/threads.ts";
import { traceTests } from "./storage/traces.ts";
import { usageTests } from "./storage/usage.ts";
import { valueFilterTests } from "./storage/value-filters.ts";
import { runWorkload } from "./workload.ts";

export type { SuiteApi } from "./storage/material.ts";

/**
 * Defines the tests. `open` must return a new, empty storage for each test; the suite migrates and closes it.
 *
 * @example
 * ```ts
 * import { describe, it } from "node:test";
 * import { nodeSqlite } from "greenroom/node-sqlite";
 * import { storageSuite } from "greenroom/testing";
 *
 * storageSuite({ describe, it }, async () => nodeSqlite(":memory:"));
 * ```
 */
export function storageSuite(api: SuiteApi, open: () => Promise<Storage>): void {
  const test: StorageTest = (name, body) => {
    api.it(name, async () => {
      const storage = await open();
      try {
        await storage.migrate();
        await body(storage);
      } finally {
        await storage.close();
      }
    });
  };

  api.describe("migrate", () => {
    test("may run several times, also concurrently", async (storage) => {
      await Promise.all([storage.migrate(), storage.migrate()]);
      await createAssistant(storage);
      await storage.migrate();
      assert.equal(await countAssistants(storage, here, {}), 1);
    });
  });

  api.describe("the worker lock", () => {
    test("is held, and a second request for it does not change running runs", async (storage) => {
      assert.deepEqual(await Promise.all([storage.becomeWorker(1000), storage.becomeWorker(1000)]), [true, true]);
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const { lease } = await createClaimedRun(storage, assistant, "t", "r1");
      assert.equal(await storage.becomeWorker(1200), true);
      assert.deepEqual(await storage.renewLease(here, lease, 6000), { cancelled: false });
      assert.deepEqual((await storage.getThread(here, "t"))?.lock, { token: lease.token, until: 6000 });
    });

    test("can require a test write", async (storage) => {
      await storage.probe(1000);
      await storage.probe(1001);
    });
  });

  assistantTests(api, test);
  threadTests(api, test);
  filterTests(api, test);
  valueFilterTests(api, test);
  visibilityTests(api, test);
  identityTests(api, test);
  traceTests(api, test);
  usageTests(api, test);
  feedbackTests(api, test);
  deliveryTests(api, test);
  pushTests(api, test);
  creationTests(api, test);
  claimTests(api, test);
  endTests(api, test);
  callTests(api, test);
  stoppingTests(api, test);
  admissionTests(api, test);
  cronTests(api, test);
  batchTests(api, test);
  frameTests(api, test);
  eventTests(api, test);
  checkpointTests(api, test);
  stateTests(api, test);
  copyTests(api, test);
  pruningTests(api, test);
  threadExpiryTests(api, test);
  itemTests(api, test);
  overviewTests(api, test);
  runListTests(api, test);

  api.describe("deployments", () => {
    test("do not see each other's rows with equal ids", async (storage) => {
      const assistants = [
        await createAssistant(storage, {}, 1000, here),
        await createAssistant(storage, {}, 1000, there),
      ];
      await createThread(storage, "t", { at: "here" }, 1000, here);
      await createThread(storage, "t", { at: "there" }, 1000, there);
      const { lease } = await createClaimedRun(storage, assistants[0] as AssistantRow, "t", "r1");
      await storage.saveProgress(here, lease, progress([checkpoint("c1", {})]), 1200);
      await createPendingRun(storage, assistants[0] as AssistantRow, "t", "r2");

      assert.equal(await storage.getRun(there, "r1"), null);
      assert.deepEqual(await storage.listRuns(there, "t", { limit: 10, offset: 0 }), []);
      assert.equal((await storage.getThread(there, "t"))?.status, "idle");
      assert.equal(await storage.getCheckpoint(there, "t", { ns: "" }), null);
      assert.deepEqual(await storage.listCheckpoints(there, "t", { limit: 10 }), []);
      assert.equal(await countThreads(storage, there, { metadata: { at: "here" } }), 0);
      assert.equal(await claimNext(storage, there, { ...claimTerms("w"), now: 90000, lease_until: 99000 }), null);
      assert.equal(await storage.renewLease(there, lease, 99000), null);
      assert.equal(await storage.saveProgress(there, lease, progress([checkpoint("c2", {})]), 1200), false);
      assert.equal(await storage.finishRun(there, lease, finish()), null);
      assert.equal(await storage.requeueRun(there, lease, 1300), false);
      await storage.releaseThreadLock(there, lease);
      const named = { thread_id: "t", run_ids: ["r1", "r2"] };
      for (const action of ["interrupt", "rollback"] as const) {
        assert.deepEqual(await storage.stopRuns(there, named, action, 1300), []);
        assert.deepEqual(await storage.stopRuns(there, { run_ids: named.run_ids }, action, 1300), []);
      }
      assert.deepEqual(await storage.listRuns(there, "t", { above: 0, limit: 10, offset: 0 }), []);
      assert.deepEqual(await storage.readFrames(there, "r1", 0), []);
      assert.deepEqual(await storage.countActiveRuns(there, 1300), {
        pending: 0,
        scheduled: 0,
        running: 0,
        oldest_due: null,
      });
      assert.equal(await storage.deleteRun(there, "t", "r2", 9_000), "not_found");
      assert.equal(await storage.deleteThread(there, "t"), true);
      assert.equal(await storage.deleteAssistant(there, "a", { delete_threads: true }), true);
      const ages = { stateless_before: 1e15, frames_before: 1e15, keys_before: 1e15 };
      const old = { ...ages, features: { feedback: 1e15, webhooks: 1e15 }, limit: 10, now: 1e15 };
      assert.equal(await storage.deleteExpired(there, old), 0);

      assert.equal((await storage.getThread(here, "t"))?.running, "r1");
      assert.equal((await storage.getAssistant(here, "a"))?.version, 1);
      assert.equal((await storage.getRun(here, "r2"))?.status, "pending");
      assert.equal((await storage.getCheckpoint(here, "t", { ns: "" }))?.checkpoint_id, "c1");
    });
  });

  api.describe("a random workload", () => {
    for (const seed of createSeeds(api, 2)) {
      test(`satisfies every invariant, seed ${seed}`, (storage) => runWorkload(storage, seed, api.effort));
    }
  });
}
