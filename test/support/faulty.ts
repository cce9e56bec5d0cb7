/** Helpers for tests of the worker: a storage whose operations fail on request, and a clock that is moved until a condition holds. */
import assert from "node:assert/strict";
import { nodeSqlite } from "../../adapters/sqlite/node.ts";
import type { Frame } from "../../lib/mod.ts";
import type { Storage } from "../../lib/storage/types.ts";
import { type TestService, type TestServiceOptions, type testClock, testService } from "../suite/kit.ts";

type Verb = (call: () => Promise<unknown>, args: readonly unknown[]) => unknown;

export interface Faulty {
  readonly storage: Storage;
  /** The replacement of an operation; `call` is the operation itself. */
  readonly faults: Partial<Record<keyof Storage, Verb>>;
  /** The number of calls of each operation. */
  readonly calls: Partial<Record<keyof Storage, number>>;
  /** Returns the database as another process would use it; `close` has no effect on it. */
  share(): Faulty;
}

export function createFaultyStorage(real: Storage = nodeSqlite(":memory:")): Faulty {
  const faults: Faulty["faults"] = {};
  const calls: Faulty["calls"] = {};
  const storage = new Proxy(real, {
    get(target, name) {
      const verb = name as keyof Storage;
      const method = Reflect.get(target, name) as (...args: unknown[]) => Promise<unknown>;
      // Verbs that this storage does not have can be put in by a fault.
      if (typeof method !== "function" && !faults[verb]) return method;
      return (...args: unknown[]) => {
        calls[verb] = (calls[verb] ?? 0) + 1;
        const call = (): Promise<unknown> => method.apply(target, args);
        const fault = faults[verb];
        return fault ? fault(call, args) : call();
      };
    },
  });
  const share = (): Faulty => {
    const otherStorage = createFaultyStorage(real);
    otherStorage.faults.close = async () => {};
    return otherStorage;
  };
  return { storage, faults, calls, share };
}

/** Leaves every later operation without a response, as for a process that was killed. */
export function kill({ faults }: Faulty): void {
  const verbs = [
    "becomeWorker",
    "claimRun",
    "renewLease",
    "saveProgress",
    "finishRun",
    "requeueRun",
    "releaseThreadLock",
  ] as const;
  for (const verb of verbs) faults[verb] = () => new Promise(() => {});
}

/** Moves the clock on until the fact holds; bounded, so that a test fails instead of hanging. */
export async function advanceUntil(
  clock: ReturnType<typeof testClock>,
  fact: () => boolean | Promise<boolean>,
  step = 100,
  steps = 500,
): Promise<void> {
  for (let i = 0; i < steps && !(await fact()); i++) await clock.advance(step);
  assert.ok(await fact(), "it never came");
}

/** Creates a service on a test's clock. The clock is moved when it is disposed of, so that it stops also while a run executes. */
export async function createClockedService(
  clock: ReturnType<typeof testClock>,
  options: TestServiceOptions,
): Promise<TestService> {
  const kit = await testService({ environment: clock, ...options });
  return {
    ...kit,
    async [Symbol.asyncDispose]() {
      let stopped = false;
      void kit.service.stop(0).then(() => {
        stopped = true;
      });
      await advanceUntil(clock, () => stopped);
    },
  };
}

/** Collects frames as they come. */
export function collect(frames: AsyncIterable<Frame>): { readonly list: Frame[]; readonly ended: () => boolean } {
  const list: Frame[] = [];
  let ended = false;
  void (async () => {
    for await (const frame of frames) list.push(frame);
    ended = true;
  })();
  return { list, ended: () => ended };
}
