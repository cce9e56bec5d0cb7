/** The agents of the soak: plain functions that do what the run's metadata says and log what they really do. */
import { closeSync, existsSync, openSync, writeSync } from "node:fs";
import process from "node:process";
import type { FunctionJob, JsonObject } from "../../lib/mod.ts";
import type { Line, Mark } from "./executions.ts";

/** What a run is to do; the client puts it into the run's metadata. */
export interface Plan {
  readonly key: string;
  /** Steps, each of which waits and then leaves one message. */
  readonly steps?: number;
  readonly wait_ms?: number;
  /** Custom frames per step. */
  readonly tokens?: number;
  /** Waits to be stopped: before the first event, once this many steps are done, or before the last message. */
  readonly hold?: "start" | number | "out";
  /** Asks a question after the last step. */
  readonly ask?: boolean;
  /** Goes on for so long after it was told to stop, and leaves messages all the while. */
  readonly zombie_ms?: number;
  /** Keeps the event loop for so long. */
  readonly block_ms?: number;
}

/** The content of a custom frame: the plan's key, the attempt, and a number that counts from 0 in each attempt. */
export interface Token extends JsonObject {
  readonly key: string;
  readonly attempt: number;
  readonly n: number;
}

const file = process.env.SOAK_EXECUTIONS;
if (!file) throw new Error("SOAK_EXECUTIONS is not set");
const log = openSync(file, "a");
process.on("exit", () => closeSync(log));

/** Appends one line, whole. */
export function mark(what: Mark, token: string, job: JobIds, step = 0): void {
  const { run_id, thread_id, attempt, key, version } = job;
  const line: Line = {
    at: Date.now(),
    pid: process.pid,
    mark: what,
    run: run_id,
    thread: thread_id,
    key,
    attempt,
    token,
    step,
    version,
  };
  writeSync(log, `${JSON.stringify(line)}\n`);
}

/** The ids of an execution in the log. */
export interface JobIds {
  readonly run_id: string;
  readonly thread_id: string;
  readonly attempt: number;
  readonly key: string;
  /** The assistant's version from its context. */
  readonly version: number;
}

/** Rejects when the signal aborts. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(new Error("stopped"));
      return;
    }
    const stop = (): void => {
      clearTimeout(timer);
      reject(new Error("stopped"));
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal.addEventListener("abort", stop, { once: true });
  });
}

/** The maximum time for which an agent waits to be stopped. */
export const HELD_MS = 120_000;

export async function* agent(job: FunctionJob): AsyncGenerator<unknown> {
  const plan = job.metadata.soak as unknown as Plan;
  const { key, steps = 1, wait_ms = 0, tokens = 0, zombie_ms = 0, block_ms = 0 } = plan;
  const { run_id, thread_id, attempt, signal } = job;
  const ids: JobIds = { run_id, thread_id, attempt, key, version: Number(job.context.version ?? 0) };
  const token = crypto.randomUUID();
  // The same id in every attempt: a step that is done again replaces what an earlier attempt left of it.
  const message = (step: string): JsonObject => ({
    messages: [{ type: "ai", id: `${run_id}/${step}`, content: `${step} ${key} ${token}` }],
  });
  const hold = async (at: Plan["hold"]): Promise<void> => {
    if (plan.hold !== at) return;
    mark("hold", token, ids);
    await pause(HELD_MS, signal);
  };
  let emittedCount = 0;
  mark("begin", token, ids);
  try {
    await hold("start");
    if (block_ms > 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, block_ms);
    for (let step = 0; step < steps; step++) {
      mark("step", token, ids, step);
      await job.span(`step ${step}`, () => pause(wait_ms, signal));
      for (let n = 0; n < tokens; n++) job.emit({ key, attempt, n: emittedCount++ } satisfies Token);
      yield message(`s${step}`);
      await hold(step + 1);
    }
    if (plan.ask && job.command?.resume === undefined) {
      mark("ask", token, ids);
      yield job.interrupt({ key });
    }
    await hold("out");
    yield message("out");
  } catch (error) {
    // A careless agent continues, and its later output must leave nothing.
    const until = Date.now() + zombie_ms;
    for (let n = 0; Date.now() < until; n++) {
      mark("late", token, ids, n);
      await new Promise((done) => setTimeout(done, 20));
    }
    if (zombie_ms > 0) yield message("late0");
    throw error;
  } finally {
    mark("end", token, ids);
  }
}

/** The parameters of `flood`. */
export interface Flood {
  readonly chunks: number;
  readonly bytes: number;
  /** It begins once this file is there. */
  readonly gate: string;
}

/** Shows so many frames of so many bytes each. */
export async function* flood(job: FunctionJob): AsyncGenerator<unknown> {
  const { chunks, bytes, gate } = job.metadata.soak as unknown as Flood;
  while (!existsSync(gate)) await pause(20, job.signal);
  for (let n = 0; n < chunks; n++) {
    job.emit({ n, text: String(n % 10).repeat(bytes) });
    // A model does not keep the event loop either.
    await pause(0, job.signal);
  }
  yield { messages: [{ type: "ai", content: `${chunks} chunks` }] };
}

/** Returns the last message. It is the shortest run. */
export function echo({ messages }: FunctionJob): unknown {
  return { messages: [{ type: "ai", content: String(messages.at(-1)?.content) }] };
}
