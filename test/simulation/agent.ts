/** The simulated agent: an executor that follows the script of the run's input, step by step, and can ignore a stop. */

import type { Executor, ExecutorEvent, Job, StoredCheckpoint } from "../../lib/executor/contract.ts";
import { createCheckpointId } from "../../lib/executor/job-checkpoints.ts";
import { createInterruptGoneError } from "../../lib/executor/job-request.ts";
import { parseRecordedState, recordedGraphState } from "../../lib/executor/recorded-states.ts";
import { recordStates } from "../../lib/executor/state-recorder.ts";
import type { Json, JsonObject } from "../../lib/json.ts";
import { type Process, waitForever } from "./node.ts";
import type { World } from "./world.ts";

/** The steps of a run. They are the run's input, or the answer to a question of an earlier run. */
export interface Script {
  /** Names the run in every message it leaves. */
  readonly tag: string;
  readonly steps: readonly Step[];
  /** True: the agent continues after it was told to stop. */
  readonly deaf: boolean;
}

export interface Step {
  /** The milliseconds that it works before the step is done; null: for ever. */
  readonly ms: number | null;
  /** The number of events that it emits meanwhile. */
  readonly events: number;
  /** The end of the step, if it is not a message in the state. `ask` leaves its message, and stops the run at a question. */
  readonly end?: "throw" | "ask";
  /** Characters added to the message. */
  readonly padding: number;
}

/** The two kinds of executors: `recordStates` records the states of `plain`; `saver` writes its own checkpoints. */
export const GRAPHS: readonly string[] = ["plain", "saver"];

export const MAX_ATTEMPTS = 3;

/** The messages a script leaves when it runs to its end or its question. */
export function createMessages(script: Script): string[] {
  const messages: string[] = [];
  for (const [i, step] of script.steps.entries()) {
    if (step.end === "throw") break;
    messages.push(`${script.tag}/${i}`);
    if (step.end === "ask") break;
  }
  return messages;
}

/** Returns a message without its padding. */
export function stripPadding(message: Json): string {
  return String(message).split(" ")[0] as string;
}

export function readScript(input: Json | undefined, command: JsonObject | null): Script {
  const scriptOrAnswers = (command?.resume ?? input) as unknown as Script | Readonly<Record<string, Script>>;
  // An answer may be in a map by interrupt id.
  return "tag" in scriptOrAnswers ? (scriptOrAnswers as Script) : (Object.values(scriptOrAnswers)[0] as Script);
}

export function createAgentExecutor(world: World, process: Process): Executor {
  const execute: Executor["execute"] = async function* (job, signal) {
    // The process may have ended a moment ago, with this step of its work still to come.
    if (!process.alive) await waitForever();
    const execution = world.oracle.executions.start(process, job);
    signal.addEventListener("abort", () => world.oracle.executions.stop(execution, String(signal.reason)));
    try {
      for await (const event of act(world, process, job, signal)) {
        world.oracle.executions.yields(execution, event);
        execution.yielding = true;
        yield event;
        execution.yielding = false;
      }
    } finally {
      world.oracle.executions.settle(execution);
    }
  };
  const recorded = recordStates(execute);
  return {
    graphs: () =>
      GRAPHS.map((graph_id) => ({
        graph_id,
        resumes_on_retry: graph_id === "saver",
        max_attempts: MAX_ATTEMPTS,
        protocol_events: graph_id === "saver" && world.plan.lag_ms > 0,
      })),
    state: (graph_id) => (graph_id === "saver" ? recordedGraphState : null),
    execute: (...attempt) => (attempt[0].graph_id === "saver" ? execute : recorded)(...attempt),
  };
}

async function* act(world: World, process: Process, job: Job, signal: AbortSignal): AsyncGenerator<ExecutorEvent> {
  const { scheduler } = world;
  const script = readScript(job.input ?? job.context.script, job.command as unknown as JsonObject | null);
  const head = await job.checkpoints.get({ ns: "" });
  const messages = readMessages(head);
  const pending = readPending(head);
  const missingTargets = (job.resume_targets ?? []).filter(
    ({ interrupt_id: id }) => id !== null && !pending.includes(id),
  );
  // `recordStates` looks itself, before it calls the agent.
  if (job.graph_id === "saver" && !job.resumed && missingTargets.length > 0)
    throw createInterruptGoneError(missingTargets, pending);
  world.oracle.answers.consumed(job, pending);
  const saver = job.graph_id === "saver" ? new Saver(job, () => scheduler.now, head) : null;
  const name = job.graph_id;
  // A later attempt goes on behind the last step that is stored.
  const done = job.resumed
    ? messages.filter((message) => stripPadding(message).startsWith(`${script.tag}/`)).length
    : 0;
  let emittedCount = 0;
  const lag = job.graph_id === "saver" ? world.plan.lag_ms : 0;

  async function* speak(step: number, event: "message-start" | "message-finish"): AsyncGenerator<ExecutorEvent> {
    const run_id = `${script.tag}/${step}`;
    if (lag > 0) yield { type: "event", method: "messages", namespace: [], data: { event, run_id } };
  }

  async function* state(
    next: readonly string[],
    question: Json | null,
    spoken: number | null = null,
  ): AsyncGenerator<ExecutorEvent> {
    const interrupts = question === null ? [] : [{ id: `${script.tag}?`, value: question }];
    const tasks = next.map((node) => ({
      id: `${script.tag}-${node}`,
      name: node,
      error: null,
      interrupts,
      checkpoint: null,
      state: null,
      result: null,
    }));
    const values = { messages: [...messages] };
    const closeBarrier = lag > 0 ? job.checkpoints.openBarrier?.() : undefined;
    const put = saver?.put(values, next, tasks as unknown as Json);
    put?.catch(() => {});
    // With durability `sync` it is shown once it is stored.
    if (job.durability !== "sync") await put;
    if (lag > 0) await pause(world, process, world.scheduler.now % lag, null);
    if (spoken !== null) yield* speak(spoken, "message-finish");
    if (job.durability === "sync") closeBarrier?.();
    const saved = await put;
    const frames = job.modes.has("values") ? [{ type: "stream", mode: "values", data: values } as const] : [];
    yield { type: "state", values, next, tasks, frames, ...(saved && { checkpoint: saved }) };
    closeBarrier?.();
  }

  // Where an earlier attempt had come to its question, only its last word is missing.
  if (done > 0 && script.steps[done - 1]?.end === "ask") return yield* state([name], `${script.tag}?`);
  if (done >= script.steps.length) return yield* state([], null);
  for (let i = done; i < script.steps.length; i++) {
    const step = script.steps[i] as Step;
    const spans = new StepSpans(world, job, script.tag, i);
    const last = i === script.steps.length - 1;
    yield* speak(i, "message-start");
    for (let n = 0; n < step.events; n++) {
      if (signal.aborted && !script.deaf) signal.throwIfAborted();
      const payload = {
        tag: script.tag,
        attempt: job.attempt,
        claim: world.oracle.runs.byId.get(job.run_id)?.state.claims ?? 0,
        n: emittedCount++,
      };
      if (job.modes.has("custom")) yield { type: "stream", mode: "custom", data: payload };
      if (n % 16 === 3) await pause(world, process, 1, script.deaf ? null : signal);
    }
    await pause(world, process, step.ms, script.deaf ? null : signal);
    if (step.end === "throw") {
      const error = new Error(`${script.tag} fails`);
      spans.end(error);
      throw error;
    }
    yield spans.end();
    // The run may be stopped while its worker takes the usage.
    if (!script.deaf) signal.throwIfAborted();
    messages.push(`${script.tag}/${i}${step.padding > 0 ? ` ${"x".repeat(step.padding)}` : ""}`);
    yield* state(step.end === "ask" ? [name] : last ? [] : [name], step.end === "ask" ? `${script.tag}?` : null, i);
    if (step.end === "ask") return;
  }
}

/** The spans of one step: a node, and the call of a model in it. If the run is stopped meanwhile, they stay open. */
class StepSpans {
  readonly #world: World;
  readonly #job: Job;
  readonly #node: string | undefined;
  readonly #model: string | undefined;
  readonly #tokens: { readonly in: number; readonly out: number };

  constructor(world: World, job: Job, tag: string, step: number) {
    this.#world = world;
    this.#job = job;
    this.#tokens = { in: step + 1, out: 2 };
    this.#node = job.trace?.start({ kind: "node", name: `step ${step}`, step });
    if (this.#node === undefined) return;
    const input = () => [{ role: "user", content: `${tag} asks ${step}` }];
    this.#model = job.trace?.start({ kind: "model", name: "model", parent_id: this.#node, input });
  }

  /** Ends both spans. Returns the usage of the model. */
  end(error?: Error): ExecutorEvent {
    const { trace } = this.#job;
    const result = error ? ({ status: "error", error } as const) : ({ status: "ok" } as const);
    if (trace && this.#node !== undefined && this.#model !== undefined) {
      trace.end(this.#model, { status: "ok", tokens: this.#tokens, output: () => "an answer" });
      trace.end(this.#node, result);
      this.#world.oracle.spans.end(trace.attempt_id, [this.#node, this.#model]);
    }
    return { type: "usage", tokens_in: this.#tokens.in, tokens_out: this.#tokens.out, model: "model" };
  }
}

/** Waits, and rejects with the reason when the run is to stop. */
function pause(world: World, process: Process, ms: number | null, signal: AbortSignal | null): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const cancel = ms === null ? (): void => {} : world.scheduler.at(ms, process, resolve);
    signal?.addEventListener("abort", () => {
      cancel();
      reject(signal.reason);
    });
  });
}

/** Returns the ids of the interrupts that are pending in a state. */
const readPending = (stored: StoredCheckpoint | null): readonly string[] =>
  ((stored && parseRecordedState(stored)?.tasks) ?? []).flatMap(({ interrupts }) => interrupts.map(({ id }) => id));

function readMessages(stored: StoredCheckpoint | null): Json[] {
  const channelValue = stored?.values.find(({ channel }) => channel === "messages");
  return channelValue ? (JSON.parse(String(channelValue.data)) as Json[]) : [];
}

/** Writes checkpoints as an executor with a saver of its own does, in the form that the worker's have. */
class Saver {
  readonly #job: Job;
  readonly #now: () => number;
  #parent: string | null;
  #versions: Readonly<Record<string, string>>;
  #step: number;
  #count = 0;

  constructor(job: Job, now: () => number, head: StoredCheckpoint | null) {
    this.#job = job;
    this.#now = now;
    this.#parent = head?.checkpoint_id ?? null;
    this.#versions = head?.versions ?? {};
    this.#step = typeof head?.metadata.step === "number" ? head.metadata.step : -2;
  }

  async put(
    values: { readonly messages: readonly Json[] },
    next: readonly string[],
    tasks: Json,
  ): Promise<{ ns: string; checkpoint_id: string }> {
    const { checkpoints, run_id, attempt } = this.#job;
    if (this.#parent !== null) {
      const write = { channel: "messages", idx: 0, type: "json", data: JSON.stringify(values.messages.at(-1)) };
      await checkpoints.putWrites({ ns: "", checkpoint_id: this.#parent }, `task-${run_id}`, [write]);
    }
    const tail = `${attempt}${String(++this.#count).padStart(3, "0")}`.slice(-4).padStart(4, "0");
    const uuid = `${run_id.slice(0, 19)}${tail}${run_id.slice(23)}`;
    const checkpoint_id = createCheckpointId({ now: this.#now, uuid: () => uuid } as never, this.#parent);
    await checkpoints.put({
      ns: "",
      checkpoint_id,
      parent_id: this.#parent,
      payload: { type: "json", data: JSON.stringify({ next, tasks }) },
      metadata: { source: "loop", step: ++this.#step, parents: {} },
      versions: { ...this.#versions, messages: checkpoint_id },
      values: [{ channel: "messages", version: checkpoint_id, type: "json", data: JSON.stringify(values.messages) }],
    });
    this.#parent = checkpoint_id;
    this.#versions = { messages: checkpoint_id };
    return { ns: "", checkpoint_id };
  }
}
