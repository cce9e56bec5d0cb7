/** Writes the checkpoints of agents that yield states and put no checkpoints. */
import type { Environment } from "../environment.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import type { ChannelValue, NewCheckpoint, StoredCheckpoint } from "../storage/rows.ts";
import { checkpointId } from "./checkpoint-ids.ts";
import type { Executor, ExecutorEvent, Job, StateEvent, StreamEvent } from "./contract.ts";
import { checkpointOf, stepAfter, wireCheckpoint } from "./recorded-state.ts";

/**
 * The `execute` of an executor that puts no checkpoints: each state that it yields is put as one, and shown in the modes
 * `checkpoints` and `debug`. With durability `exit` only the last state is put, and none if the run was cancelled.
 *
 * @example
 * ```ts
 * import { type Executor, recordStates } from "greenroom/executor";
 *
 * const executor: Executor = {
 *   graphs: () => [{ graph_id: "add" }],
 *   execute: recordStates(async function* ({ input }) {
 *     yield { type: "state", values: { sum: Number(input) + 1 }, next: [], tasks: [] };
 *   }),
 * };
 * ```
 */
export function recordStates(execute: Executor["execute"]): Executor["execute"] {
  return async function* (job, signal, environment) {
    const recorder = new Recorder(job, environment);
    const debug = job.modes.has("debug");
    const wanted: Job = debug ? { ...job, modes: new Set([...job.modes, "tasks"]) } : job;
    // An executor that ignores its signal may be abandoned before it ends.
    const onAbort = (): void => void recorder.close(signal).catch(() => {});
    signal.addEventListener("abort", onAbort);
    try {
      for await (const event of execute(wanted, signal, environment)) {
        if (event.type === "state") {
          if (!signal.aborted) yield* await recorder.record(event);
        } else {
          yield event;
          if (debug && event.type === "stream") yield* recorder.taskFrames(event);
        }
      }
    } finally {
      signal.removeEventListener("abort", onAbort);
      await recorder.close(signal);
    }
  };
}

type Previous = Pick<StoredCheckpoint, "checkpoint_id" | "values">;

class Recorder {
  private readonly job: Job;
  private readonly environment: Environment;
  /** Only the last state is put. */
  private readonly onlyLast: boolean;
  /** The newest state; undefined until the first one. */
  private newest: Pick<StoredCheckpoint, "checkpoint_id" | "metadata"> | null | undefined;
  /** The newest state that is put: the next one that is put follows it. */
  private stored: Previous | null = null;
  /** Put at the end. */
  private last: NewCheckpoint | null = null;

  constructor(job: Job, environment: Environment) {
    this.job = job;
    this.environment = environment;
    this.onlyLast = job.durability === "exit" && !job.temporary;
  }

  async record(event: StateEvent): Promise<ExecutorEvent[]> {
    const { job, environment } = this;
    const { checkpoints } = job;
    let above = this.newest?.checkpoint_id ?? null;
    let previous = this.newest;
    if (previous === undefined) {
      // A retry continues from the run's own newest state, not from the one it forked from.
      const stored = await checkpoints.get(job.resumed || !job.from ? { ns: "" } : job.from);
      this.stored = stored;
      previous = stored;
      above = (await checkpoints.get({ ns: "" }))?.checkpoint_id ?? null;
    }
    const source = event.source ?? "loop";
    const step = stepAfter(previous);
    const checkpoint_id = checkpointId(environment, above);
    const checkpoint = checkpointOf(event, checkpoint_id, { ...job.metadata, source, step }, this.stored);
    const shows = event.shows?.flatMap((shown) => [shown, ...this.taskFrames(shown)]) ?? [];
    this.newest = checkpoint;
    if (this.onlyLast) this.last = checkpoint;
    else {
      this.stored = { checkpoint_id, values: allValues(checkpoint, this.stored) };
      await checkpoints.put(checkpoint);
    }
    const place = { checkpoint_id, ...(previous ? { parent_id: previous.checkpoint_id } : {}) };
    return [
      { ...event, shows, checkpoint: { ns: "", ...place, step, source } },
      ...this.checkpointFrames(event, place, checkpoint.metadata),
    ];
  }

  /** Puts the last state, where only that one is put. */
  async close({ reason }: AbortSignal): Promise<void> {
    const { last } = this;
    this.last = null;
    if (last && reason !== "cancelled") await this.job.checkpoints.put(last);
  }

  private checkpointFrames(
    { values, next, tasks }: StateEvent,
    { checkpoint_id, parent_id }: { readonly checkpoint_id: string; readonly parent_id?: string },
    metadata: JsonObject,
  ): StreamEvent[] {
    const { modes, thread_id } = this.job;
    if (!modes.has("checkpoints") && !modes.has("debug")) return [];
    const config = (id: string): JsonObject => ({ configurable: { thread_id, checkpoint_ns: "", checkpoint_id: id } });
    const wire = (id: string): JsonObject => ({ ...wireCheckpoint(thread_id, "", id) });
    const data: JsonObject = {
      config: config(checkpoint_id),
      metadata,
      values,
      next: [...next],
      tasks: tasks as unknown as Json,
      parent_config: parent_id === undefined ? null : config(parent_id),
      checkpoint: wire(checkpoint_id),
      parent_checkpoint: parent_id === undefined ? null : wire(parent_id),
    };
    const frames: StreamEvent[] = modes.has("checkpoints") ? [{ type: "stream", mode: "checkpoints", data }] : [];
    return modes.has("debug") ? [...frames, this.debugFrame("checkpoint", data)] : frames;
  }

  /** A frame of mode `tasks`, as mode `debug` shows it. */
  taskFrames({ mode, data }: StreamEvent): StreamEvent[] {
    if (mode !== "tasks" || !this.job.modes.has("debug") || !isObject(data)) return [];
    return [this.debugFrame("input" in data ? "task" : "task_result", data)];
  }

  private debugFrame(type: string, payload: JsonObject): StreamEvent {
    const timestamp = new Date(this.environment.now()).toISOString();
    const step = this.newest?.metadata.step ?? -1;
    return { type: "stream", mode: "debug", data: { step, timestamp, type, payload } };
  }
}

/** All values of a checkpoint: its own, and those that it has of the one before. */
function allValues({ versions, values }: NewCheckpoint, previous: Previous | null): ChannelValue[] {
  const kept = previous?.values.filter(({ channel, version }) => versions[channel] === version) ?? [];
  return [...kept, ...values];
}
