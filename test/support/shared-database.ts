/** Services on one database in memory, as processes that share it by leases, with signals that come, or do not. */
import { nodeSqlite } from "../../adapters/sqlite/node.ts";
import { recordStates } from "../../lib/executor/state-recorder.ts";
import { createService, type Executor, type Service } from "../../lib/mod.ts";
import type { SignalKind, SignalListener, Signals } from "../../lib/storage/mod.ts";
import type { Storage } from "../../lib/storage/types.ts";
import { testClock } from "../suite/kit.ts";

export type Mode = "normal" | "lost" | "late" | "doubled";

/** Brings signals to all who listen, whoever has published them: as they are meant to come, or as badly as they may. */
export function createHub(
  mode: Mode,
  timer: (ms: number, fn: () => void) => unknown,
): Signals & {
  /** Everything published so far. */
  readonly published: (readonly [kind: SignalKind, id: string])[];
  /** Tells all listeners that they may have missed some. */
  missed(): void;
} {
  const listeners = new Set<SignalListener>();
  const published: (readonly [SignalKind, string])[] = [];
  return {
    published,
    publish(kind, id) {
      published.push([kind, id]);
      const bring = (): void => {
        for (const listener of listeners) listener.onSignal(kind, id);
      };
      if (mode === "normal" || mode === "doubled") setImmediate(bring);
      if (mode === "late" || mode === "doubled") timer(300, bring);
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    missed() {
      for (const listener of listeners) listener.onGap();
    },
  };
}

/** The actions of the agents of all processes, in order. */
export interface Happened {
  readonly what: "begins" | "aborted";
  readonly process: number;
  readonly run_id: string;
  readonly attempt: number;
  /** The reason of its abort. */
  readonly reason?: string;
  readonly at: number;
}

export type Word = number | "end" | "fail";

export interface Processes {
  readonly clock: ReturnType<typeof testClock>;
  readonly services: readonly Service[];
  readonly hub: ReturnType<typeof createHub>;
  /** The database itself. */
  readonly storage: Storage;
  readonly happened: readonly Happened[];
  /** What the executing agents do next, in this order: so many frames, or how they end. */
  say(...words: Word[]): void;
  /** Moves the clock until the condition holds. Returns the elapsed milliseconds; throws after `most`. */
  until(fact: () => unknown, most?: number): Promise<number>;
  /** Moves the clock on. */
  pass(ms: number): Promise<void>;
  stop(): Promise<void>;
}

export interface ProcessesOptions {
  readonly mode?: Mode;
  /** The number of runs that each process executes at once: one entry for each process. */
  readonly concurrency: readonly number[];
  /** The clock skew of each process in milliseconds. */
  readonly skew?: readonly number[];
  /** Replaces the storage of a process. */
  readonly storage?: (storage: Storage, process: number) => Storage;
  /** Creates the agents of a process. Default: one that does what `say` says. */
  readonly executor?: (process: number) => Executor;
  /** False: every process goes by its own clock. Default true. */
  readonly common_clock?: boolean;
}

const STEP_MS = 10;

/** The processes' clocks are a test's clock; that of the database shows the same time. */
export async function startProcesses(options: ProcessesOptions): Promise<Processes> {
  const { mode = "normal", concurrency, skew = [], common_clock = true } = options;
  const clock = testClock();
  const real = nodeSqlite(":memory:");
  const hub = createHub(mode, clock.timer);
  const happened: Happened[] = [];
  const words: Word[] = [];
  let wake = (): void => {};

  const agent = (process: number): Executor => ({
    graphs: () => [{ graph_id: "count" }],
    execute: recordStates(async function* ({ run_id, attempt }, signal) {
      const note = (what: Happened["what"], reason?: string): void => {
        happened.push({ what, process, run_id, attempt, at: clock.now(), ...(reason ? { reason } : {}) });
      };
      note("begins");
      signal.addEventListener("abort", () => note("aborted", String(signal.reason)));
      let count = 0;
      while (!signal.aborted) {
        const word = words.shift();
        if (word === "fail") throw new RangeError("too far");
        if (word === "end") break;
        for (let i = 0; i < (word ?? 0); i++) yield { type: "stream", mode: "custom", data: ++count };
        if (word !== undefined) continue;
        await new Promise<void>((resolve) => {
          const before = wake;
          wake = () => {
            before();
            resolve();
          };
          signal.addEventListener("abort", () => resolve());
        });
      }
      yield { type: "state", values: { count }, next: [], tasks: [] };
    }),
  });

  const services: Service[] = [];
  for (const [i, places] of concurrency.entries()) {
    const storage: Storage = {
      ...real,
      single_process: false,
      becomeWorker: async () => true,
      close: async () => {},
      multi_process: true,
      signals: hub,
      ...(common_clock ? { now: async () => clock.now() } : {}),
    };
    const skewMs = skew[i] ?? 0;
    services.push(
      await createService({
        storage: options.storage?.(storage, i) ?? storage,
        executor: (options.executor ?? agent)(i),
        worker: { concurrency: places },
        environment: { timer: clock.timer, now: () => clock.now() + skewMs, log: () => {} },
      }),
    );
  }

  const step = async (ms = STEP_MS): Promise<void> => {
    await clock.advance(ms);
    // What follows from it takes no time.
    for (let i = 0; i < 4; i++) await new Promise<void>((resolve) => setImmediate(resolve));
  };

  return {
    clock,
    services,
    hub,
    storage: real,
    happened,
    say(...messages) {
      words.push(...messages);
      wake();
    },
    async until(fact, most = 30_000) {
      const began = clock.now();
      while (!fact()) {
        if (clock.now() - began >= most) throw new Error(`It did not come within ${most} ms`);
        await step();
      }
      return clock.now() - began;
    },
    async pass(ms) {
      const by = ms > 1_000 ? 10 * STEP_MS : STEP_MS;
      for (let remaining = ms; remaining > 0; remaining -= by) await step(by);
    },
    async stop() {
      for (const service of services) {
        let stopped = false;
        void service.stop(0).then(() => {
          stopped = true;
        });
        while (!stopped) await step();
      }
      await real.close();
    },
  };
}
