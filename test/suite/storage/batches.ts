/** Tests of `createRuns`: it creates all runs or none. */

import assert from "node:assert/strict";
import type { AssistantRow, CreateRun, CreateRunsResult, NewRun, Storage } from "../../../lib/storage/mod.ts";
import { countThreads } from "../counts.ts";
import {
  claimNext,
  claimTerms,
  createAssistant,
  createThread,
  here,
  newRun,
  type StorageTest,
  type SuiteApi,
} from "./material.ts";

const key = (name: string, body_hash = "h"): NonNullable<CreateRun["idempotency"]> => ({
  route: "/runs/batch",
  key: name,
  body_hash,
});

/** Returns the request of a run on a new thread. */
function createRequest(
  assistant: AssistantRow,
  run_id: string,
  changes: Partial<CreateRun> = {},
  run?: Partial<NewRun>,
): CreateRun {
  const thread_id = `thread-${run_id}`;
  return {
    run: newRun(thread_id, run_id, { stateless: true, ...run }),
    expected: { assistant_revision: assistant.revision, thread_revision: null },
    create_thread: { thread_id, metadata: { of: run_id }, config: {}, stateless: true },
    now: 1100,
    ...changes,
  };
}

export function batchTests(api: SuiteApi, test: StorageTest): void {
  /** Checks that none of these runs has left anything, and that each can be created alone. */
  async function assertNone(storage: Storage, requests: readonly CreateRun[]): Promise<void> {
    for (const { run } of requests) {
      assert.equal(await storage.getRun(here, run.run_id), null);
      if (run.thread_id.startsWith("thread-")) assert.equal(await storage.getThread(here, run.thread_id), null);
    }
  }

  api.describe("createRuns", () => {
    test("creates all runs in their order, and claims the requested ones", async (storage) => {
      const assistant = await createAssistant(storage);
      const claim = { token: "w", lease_until: 5000 };
      const requests = [
        createRequest(assistant, "r1"),
        createRequest(assistant, "r2", { claim }),
        createRequest(assistant, "r3", { claim: { ...claim, token: "never" } }, { created_at: 4000 }),
        createRequest(assistant, "r4", {
          create_thread: { thread_id: "thread-r4", metadata: { a: 1 }, config: {}, stateless: false },
        }),
      ];
      const outcome = await storage.createRuns(here, requests);
      assert.ok(outcome.kind === "created");
      for (const [i, { run, claimed, stopped }] of outcome.created.entries()) {
        assert.deepEqual(run, await storage.getRun(here, requests[i]?.run.run_id ?? ""));
        assert.deepEqual(stopped, []);
        assert.equal(claimed?.lease.token, i === 1 ? "w" : undefined);
        assert.equal(run.status, i === 1 ? "running" : "pending");
        if (claimed) assert.deepEqual([claimed.run, claimed.thread.lock], [run, { token: "w", until: 5000 }]);
      }
      assert.equal(await countThreads(storage, here, { metadata: { a: 1 } }), 1);
      const next = await claimNext(storage, here, claimTerms("x"));
      assert.equal(next?.run.run_id, "r1");
      assert.deepEqual(await storage.createRuns(here, []), { kind: "created", created: [] });
    });

    test("creates no run if one cannot be created, and returns which and why", async (storage) => {
      const assistant = await createAssistant(storage);
      await createThread(storage, "t");
      const thread = await storage.getThread(here, "t");
      const expected = { assistant_revision: assistant.revision, thread_revision: thread?.revision ?? 0 };
      const onThread = (run_id: string, changes: Partial<CreateRun> = {}, run?: Partial<NewRun>): CreateRun => ({
        run: newRun("t", run_id, run),
        expected,
        now: 1100,
        ...changes,
      });
      const claim = { token: "w", lease_until: 5000 };
      const update_thread = { metadata: { lost: 1 }, config: { lost: 1 } };
      const limits = { pending_per_thread: 10, pending: 2 };
      const refused = (index: number, result: unknown): unknown => ({ kind: "refused", index, result });
      const cases: readonly (readonly [string, CreateRunsResult | unknown, CreateRun[]])[] = [
        [
          "the assistant changed",
          refused(0, { kind: "stale" }),
          [
            createRequest(assistant, "r1", { claim, idempotency: key("k") }),
            createRequest(assistant, "r2", {
              expected: { assistant_revision: assistant.revision - 1, thread_revision: null },
            }),
          ],
        ],
        [
          "the thread is unknown",
          refused(1, { kind: "thread_not_found" }),
          [onThread("r1", { update_thread, idempotency: key("k") }), { ...onThread("r2"), run: newRun("gone", "r2") }],
        ],
        [
          "its thread is full",
          refused(1, { kind: "thread_full", pending: 0 }),
          ["r1", "r2"].map((id) => onThread(id, { limits: { pending_per_thread: 1, pending: 10 } })),
        ],
        [
          "the deployment is full",
          refused(2, { kind: "deployment_full", pending: 0 }),
          ["r1", "r2", "r3"].map((id) => createRequest(assistant, id, { limits, idempotency: key(id) })),
        ],
        [
          "the deployment is full but for one that is claimed",
          refused(3, { kind: "deployment_full", pending: 0 }),
          ["r1", "r2", "r3", "r4"].map((id) =>
            createRequest(assistant, id, { limits, ...(id === "r2" ? { claim } : {}) }),
          ),
        ],
        [
          "its thread has another one of them",
          refused(0, { kind: "stale" }),
          [onThread("r1"), onThread("r2", {}, { multitask_strategy: "reject" })],
        ],
      ];
      for (const [why, outcome, requests] of cases) {
        assert.deepEqual(await storage.createRuns(here, requests), outcome, why);
        await assertNone(storage, requests);
        assert.deepEqual(await storage.getThread(here, "t"), thread, why);
        assert.equal(await countThreads(storage, here, { metadata: { lost: 1 } }), 0);
      }
      assert.deepEqual(await storage.countActiveRuns(here, 9000), {
        pending: 0,
        scheduled: 0,
        running: 0,
        oldest_due: null,
      });
      // A failed batch keeps no idempotency key.
      const keyed = ["r1", "r2"].map((id) => createRequest(assistant, id, { limits, idempotency: key(id) }));
      assert.equal((await storage.createRuns(here, keyed)).kind, "created");
      const again = await storage.createRuns(here, [createRequest(assistant, "r5", { idempotency: key("k") })]);
      assert.equal(again.kind, "created");
    });

    test("leaves concurrently created rows unchanged, and is created once by concurrent requests", async (storage) => {
      const assistant = await createAssistant(storage);
      const batch = (name: string): CreateRun[] =>
        ["a", "b"].map((of) => createRequest(assistant, `${name}-${of}`, { idempotency: key(of) }));
      const broken = createRequest(assistant, "never", { expected: { assistant_revision: -1, thread_revision: null } });
      const outcomes = await Promise.all(
        Array.from({ length: 6 }, (_, i) =>
          i % 2 === 0
            ? storage.createRuns(here, batch(`r${i}`))
            : storage.createRuns(here, [createRequest(assistant, `alone${i}`), ...(i === 1 ? [broken] : [])]),
        ),
      );
      const batches = outcomes.filter((_, i) => i % 2 === 0);
      const [first] = batches.filter((outcome) => outcome.kind === "created");
      assert.ok(first);
      for (const outcome of batches.filter((candidate) => candidate !== first)) {
        assert.deepEqual(outcome, { kind: "repeated", runs: first.created.map(({ run }) => run), same_body: true });
      }
      assert.deepEqual(
        outcomes.filter((_, i) => i % 2 === 1).map(({ kind }) => kind),
        ["refused", "created", "created"],
      );
      assert.equal((await storage.countActiveRuns(here, 2000)).pending, 4);
    });

    test("finds its idempotency keys again, and rejects them if only some are known", async (storage) => {
      const assistant = await createAssistant(storage);
      const ask = (name: string, ...keys: readonly NonNullable<CreateRun["idempotency"]>[]): CreateRun[] =>
        keys.map((idempotency, i) => createRequest(assistant, `${name}${i}`, { idempotency }));
      const outcome = await storage.createRuns(here, ask("r", key("a"), key("b")));
      assert.ok(outcome.kind === "created");
      const [a, b] = outcome.created.map(({ run }) => run);
      assert.deepEqual(await storage.createRuns(here, ask("s", key("b"), key("a", "other"))), {
        kind: "repeated",
        runs: [b, a],
        same_body: false,
      });
      const laterRequests = ask("s", key("c"), key("a"));
      assert.deepEqual(await storage.createRuns(here, laterRequests), {
        kind: "refused",
        index: 1,
        result: { kind: "repeated", run: a, same_body: true },
      });
      await assertNone(storage, laterRequests);
      await storage.stopRuns(here, { thread_id: "thread-r0", run_ids: ["r0"] }, "rollback", 1200);
      assert.deepEqual(await storage.createRuns(here, ask("s", key("a"), key("b"))), {
        kind: "repeated",
        runs: [null, b],
        same_body: true,
      });
    });

    test("applies the limits to many concurrent batches", async (storage) => {
      const assistant = await createAssistant(storage);
      const limits = { pending_per_thread: 1, pending: 50 };
      const kinds = await Promise.all(
        Array.from({ length: 20 }, async (_, i) => {
          const requests = Array.from({ length: 4 }, (_, j) => createRequest(assistant, `r${i}-${j}`, { limits }));
          return (await storage.createRuns(here, requests)).kind;
        }),
      );
      assert.equal(kinds.filter((kind) => kind === "created").length, 12);
      assert.equal((await storage.countActiveRuns(here, 2000)).pending, 48);
    });
  });
}
