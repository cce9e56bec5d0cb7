import { recordStates } from "../../../lib/executor/state-recorder.ts";
import { createService, type Executor, type RunCreate, type Service } from "../../../lib/mod.ts";
import { testClock } from "../../suite/kit.ts";
import { advanceUntil, collect, createFaultyStorage, type Faulty } from "../../support/faulty.ts";

export const ask = (runFields: Partial<RunCreate> = {}): RunCreate => ({
  assistant_id: "count",
  stream_mode: ["custom", "updates"],
  stream_resumable: true,
  ...runFields,
});

/** Shows as many frames as the test asks for, one by one, until it says `end`, `fail` or `hang`. */
export function counter(): {
  readonly executor: Executor;
  readonly say: (...words: (number | "end" | "fail")[]) => void;
} {
  const words: (number | "end" | "fail")[] = [];
  let wake = (): void => {};
  return {
    say(...newWords) {
      words.push(...newWords);
      wake();
    },
    executor: {
      graphs: () => [{ graph_id: "count" }],
      execute: recordStates(async function* (_job, signal) {
        let count = 0;
        while (!signal.aborted) {
          const word = words.shift();
          if (word === "fail") throw new RangeError("too far");
          if (word === "end") break;
          for (let i = 0; i < (word ?? 0); i++) yield { type: "stream", mode: "custom", data: ++count };
          if (word !== undefined) continue;
          await new Promise<void>((resolve) => {
            wake = resolve;
            signal.addEventListener("abort", () => resolve());
          });
        }
        yield { type: "state", values: { count }, next: [], tasks: [] };
      }),
    },
  };
}

/** Services on one database, as processes that share it. */
export async function processes(
  clock: ReturnType<typeof testClock>,
  executor: Executor,
  ...concurrency: readonly number[]
): Promise<{ readonly services: Service[]; readonly stores: Faulty[]; readonly stop: () => Promise<void> }> {
  const shared = createFaultyStorage();
  const stores = concurrency.map(() => shared.share());
  const services: Service[] = [];
  for (const [i, { storage }] of stores.entries()) {
    const worker = { concurrency: concurrency[i] as number };
    services.push(await createService({ storage, executor, worker, environment: { ...clock, log: () => {} } }));
  }
  return {
    services,
    stores,
    async stop() {
      for (const service of services) {
        const stopping = service.stop(0);
        await clock.advance(20_000);
        await stopping;
      }
      await shared.storage.close();
    },
  };
}

/** A resumable run that executes in the first of two processes, where it has shown four frames. */
export async function executing(): Promise<{
  readonly clock: ReturnType<typeof testClock>;
  readonly say: ReturnType<typeof counter>["say"];
  readonly first: Service;
  readonly second: Service;
  readonly stores: readonly [Faulty, Faulty];
  readonly thread_id: string;
  readonly run_id: string;
  /** The frames that its reader in the first process received. */
  readonly here: ReturnType<typeof collect>;
  readonly stop: () => Promise<void>;
}> {
  const clock = testClock();
  const { executor, say } = counter();
  const { services, stores, stop } = await processes(clock, executor, 1, 0);
  const [first, second] = services as [Service, Service];
  const { thread_id } = await first.threads.create();
  const { run, frames } = await first.runs.stream(thread_id, ask());
  const here = collect(frames);
  say(3);
  await advanceUntil(clock, () => here.list.length === 4, 10);
  return { clock, say, first, second, stores: stores as [Faulty, Faulty], thread_id, run_id: run.run_id, here, stop };
}
