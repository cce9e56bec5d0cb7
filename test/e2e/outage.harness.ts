/** A database that can become unreachable, slow runs, and checks of what their readers received. */
import assert from "node:assert/strict";
import { nodeSqlite } from "../../adapters/sqlite/node.ts";
import { isOutage, ServiceError, toStorageError } from "../../lib/errors.ts";
import type { AgentFunction, Frame, FunctionJob, RunCreate } from "../../lib/mod.ts";
import { serviceInternals } from "../../lib/service.ts";
import type { Storage } from "../../lib/storage/types.ts";
import { type TestClock, type TestService, testClock } from "../suite/kit.ts";
import { type collect, createClockedService } from "../support/faulty.ts";

export const SECOND = 1_000;

/** A store that can become unreachable. Each of its operations then fails, including those of accounts. */
export interface Breakable {
  readonly storage: Storage;
  away: boolean;
  /** The operation that takes effect while the store becomes unreachable, so its result is lost. */
  last: string | null;
  /** The number of calls while it was unreachable. */
  refused: number;
  /** Shares the database with another process, for which it can become unreachable separately. */
  share(): Breakable;
}

export function breakable(real: Storage): Breakable {
  const store: Omit<Breakable, "storage"> = {
    away: false,
    last: null,
    refused: 0,
    share: () => breakable(real),
  };
  const guard = <Part extends object>(part: Part): Part =>
    new Proxy(part, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name);
        if (name === "identity") return guard(value as object);
        // Whoever has lost it cannot know that nobody else has taken it.
        if (name === "alone") return false;
        if (typeof value !== "function" || name === "close") return name === "close" ? async () => {} : value;
        return async (...args: unknown[]) => {
          if (store.away) {
            store.refused++;
            throw toStorageError();
          }
          const answer = await value.apply(target, args);
          if (name !== store.last) return answer;
          store.last = null;
          store.away = true;
          throw toStorageError({ unknown: true });
        };
      },
    });
  return Object.assign(store, { storage: guard(real) });
}

export interface World extends AsyncDisposable {
  readonly clock: TestClock;
  readonly real: Storage;
  readonly store: Breakable;
  /** The attempts in order, and the maximum number of concurrent executions of one thread. */
  readonly executions: { readonly attempts: number[]; most: number };
  /** Bodies of webhooks that were sent. */
  readonly webhookBodies: Record<string, unknown>[];
  open(store?: Breakable): Promise<TestService>;
}

/** Processes on one database and one clock. */
export function world(): World {
  const clock = testClock();
  const real = nodeSqlite(":memory:");
  const store = breakable(real);
  const executions: World["executions"] = { attempts: [], most: 0 };
  const webhookBodies: World["webhookBodies"] = [];
  const open = new Map<string, number>();
  const opened: TestService[] = [];
  const pause = (ms: number, signal: AbortSignal): Promise<void> =>
    new Promise((resolve, reject) => {
      clock.timer(ms, resolve);
      signal.addEventListener("abort", () => reject(new Error("stopped")));
    });
  /** Runs ten steps of a second each, with a frame and a message after each. */
  async function* steps(job: FunctionJob): AsyncGenerator<unknown> {
    const count = (open.get(job.thread_id) ?? 0) + 1;
    open.set(job.thread_id, count);
    executions.most = Math.max(executions.most, count);
    executions.attempts.push(job.attempt);
    try {
      for (let n = 0; n < 10; n++) {
        await pause(SECOND, job.signal);
        job.emit({ n, attempt: job.attempt });
        yield { messages: [{ type: "ai", id: `${job.run_id}/${n}`, content: `${n}` }] };
      }
    } finally {
      open.set(job.thread_id, (open.get(job.thread_id) ?? 1) - 1);
    }
  }
  const agents: Record<string, AgentFunction> = { steps, echo: async () => ({ said: "done" }) };
  return {
    clock,
    real,
    store,
    executions,
    webhookBodies,
    async open(from = store) {
      const kit = await createClockedService(clock, {
        storage: from.storage,
        agents,
        environment: clock,
        webhooks: {
          transport: {
            resolve: async () => ["93.184.215.14"],
            async send({ body }) {
              webhookBodies.push(JSON.parse(body));
              return { status: 200, retry_after: null, address: "93.184.215.14" };
            },
          },
        },
      });
      opened.push(kit);
      return kit;
    },
    async [Symbol.asyncDispose]() {
      for (const kit of opened) await kit[Symbol.asyncDispose]();
      await real.close();
    },
  };
}

/** Emits ten frames, which are stored. */
export const resumable: RunCreate = {
  assistant_id: "steps",
  input: {},
  stream_mode: ["custom"],
  stream_resumable: true,
};

/** Checks that ids have no gap, that `end` comes once and last, and that the tokens of an attempt are complete and in order. */
export function whole(frames: readonly Frame[], attempts: readonly number[]): void {
  assert.deepEqual(
    frames.map(({ id }) => id),
    frames.map((_, i) => i + 1),
  );
  assert.deepEqual(
    frames.flatMap(({ event }, i) => (event === "end" ? [i] : [])),
    [frames.length - 1],
  );
  const startedAttempts = frames
    .filter(({ event }) => event === "metadata")
    .map(({ data }) => JSON.parse(data).attempt);
  assert.deepEqual(startedAttempts, attempts);
  let next = 0;
  for (const { event, data } of frames) {
    if (event === "metadata") next = 0;
    if (event === "custom") assert.equal(JSON.parse(data).n, next++);
  }
  assert.equal(next, 10);
}

/** Reads a run's frames as clients do: reconnects with the last seen id after each broken connection. */
export function follow(kit: TestService, thread_id: string, run_id: string): ReturnType<typeof collect> {
  const list: Frame[] = [];
  let ended = false;
  async function read(): Promise<void> {
    const after = list.findLast(({ id }) => id !== null)?.id;
    const options = typeof after === "number" ? { after } : {};
    const { frames } = await kit.service.runs.joinStream(thread_id, run_id, options);
    for await (const frame of frames) list.push(frame);
    ended = list.at(-1)?.event === "end";
  }
  void (async () => {
    while (!ended) {
      try {
        await read();
      } catch (error) {
        // The service has stopped: the test is over.
        if (error instanceof ServiceError && error.code === "unavailable") return;
        assert.ok(isOutage(error), String(error));
      }
      if (!ended)
        await new Promise<void>((resolve) => void serviceInternals(kit.service).environment.timer(200, resolve));
    }
  })();
  return { list, ended: () => ended };
}
