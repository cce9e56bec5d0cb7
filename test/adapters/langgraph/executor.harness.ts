/** Drives an executor without a service: threads whose checkpoints are held in memory, and jobs on them. */

import { systemEnvironment } from "../../../lib/environment.ts";
import type {
  CheckpointHandle,
  Executor,
  ExecutorEvent,
  Job,
  NewCheckpoint,
  PendingWrite,
  StoredCheckpoint,
  StreamMode,
} from "../../../lib/executor/contract.ts";
import { contains, type Json } from "../../../lib/json.ts";
import { noStore } from "../../suite/no-store.ts";

/** One write, as it came. */
export type Step =
  | { readonly put: NewCheckpoint }
  | {
      readonly at: { readonly ns: string; readonly checkpoint_id: string };
      readonly task_id: string;
      readonly writes: readonly PendingWrite[];
    };

/** The checkpoints of one thread, with every write in the order of its call. */
export class MemoryCheckpoints implements CheckpointHandle {
  readonly puts: NewCheckpoint[] = [];
  readonly steps: Step[] = [];
  /** Thrown by the next writes. */
  fails: Error | undefined;
  readonly #rows: (NewCheckpoint & { created_at: number })[] = [];
  readonly #values = new Map<string, NewCheckpoint["values"][number]>();
  readonly #pending = new Map<string, Map<string, PendingWrite & { task_id: string }>>();

  async get(at: { ns: string; checkpoint_id?: string }): Promise<StoredCheckpoint | null> {
    const row = this.#rows.findLast(
      ({ ns, checkpoint_id }) => ns === at.ns && (at.checkpoint_id === undefined || checkpoint_id === at.checkpoint_id),
    );
    return row ? this.#toStored(row) : null;
  }

  async *list(at: {
    ns?: string;
    before?: string;
    limit?: number;
    metadata?: Record<string, Json>;
  }): AsyncGenerator<StoredCheckpoint> {
    let remaining = at.limit ?? Number.POSITIVE_INFINITY;
    for (const row of this.#rows.toReversed()) {
      if (at.ns !== undefined && row.ns !== at.ns) continue;
      if (at.before !== undefined && row.checkpoint_id >= at.before) continue;
      if (at.metadata && !contains(row.metadata, at.metadata)) continue;
      if (remaining-- <= 0) return;
      yield this.#toStored(row);
    }
  }

  async put(checkpoint: NewCheckpoint): Promise<void> {
    if (this.fails) throw this.fails;
    this.puts.push(checkpoint);
    this.steps.push({ put: checkpoint });
    this.#rows.push({ ...checkpoint, created_at: 0 });
    for (const channelValue of checkpoint.values) {
      const key = JSON.stringify([checkpoint.ns, channelValue.channel, channelValue.version]);
      const storedValue = this.#values.get(key);
      if (storedValue && storedValue.data !== channelValue.data)
        throw new Error(`Two values of ${channelValue.channel} share version ${channelValue.version}`);
      this.#values.set(key, channelValue);
    }
  }

  async putWrites(
    at: { ns: string; checkpoint_id: string },
    task_id: string,
    writes: readonly PendingWrite[],
  ): Promise<void> {
    if (this.fails) throw this.fails;
    this.steps.push({ at, task_id, writes });
    const key = JSON.stringify([at.ns, at.checkpoint_id]);
    const pending = this.#pending.get(key) ?? new Map<string, PendingWrite & { task_id: string }>();
    this.#pending.set(key, pending);
    for (const write of writes) pending.set(JSON.stringify([task_id, write.idx]), { ...write, task_id });
  }

  #toStored(row: NewCheckpoint & { created_at: number }): StoredCheckpoint {
    const pending = this.#pending.get(JSON.stringify([row.ns, row.checkpoint_id]));
    return {
      ...row,
      run_id: null,
      values: Object.entries(row.versions).flatMap(([channel, version]) => {
        const channelValue = this.#values.get(JSON.stringify([row.ns, channel, version]));
        return channelValue ? [channelValue] : [];
      }),
      writes: [...(pending?.values() ?? [])].sort((a, b) =>
        a.task_id < b.task_id ? -1 : a.task_id > b.task_id ? 1 : a.idx - b.idx,
      ),
    };
  }
}

export interface Thread {
  readonly thread_id: string;
  readonly checkpoints: MemoryCheckpoints;
}

export function createThread(): Thread {
  return { thread_id: crypto.randomUUID(), checkpoints: new MemoryCheckpoints() };
}

/** Creates a thread with the first `steps` that were written to another thread. */
export async function createThreadAfter({ thread_id }: Thread, steps: readonly Step[]): Promise<Thread> {
  const checkpoints = new MemoryCheckpoints();
  for (const step of steps) {
    if ("put" in step) await checkpoints.put(step.put);
    else await checkpoints.putWrites(step.at, step.task_id, step.writes);
  }
  return { thread_id, checkpoints };
}

export type JobChanges = Partial<Omit<Job, "modes">> & { readonly modes?: readonly StreamMode[] };

export function createJob(thread: Thread, graph_id: string, changes: JobChanges = {}): Job {
  const { modes = [], ...jobChanges } = changes;
  const ids = { run_id: crypto.randomUUID(), thread_id: thread.thread_id, assistant_id: crypto.randomUUID(), graph_id };
  return {
    ...ids,
    user: null,
    store: noStore,
    stateless: false,
    attempt: 1,
    resumed: false,
    input: undefined,
    command: null,
    from: null,
    config: { configurable: {} },
    context: {},
    metadata: { ...ids },
    subgraphs: false,
    interrupt_before: [],
    interrupt_after: [],
    durability: "async",
    checkpoints: thread.checkpoints,
    ...jobChanges,
    modes: new Set(modes),
  };
}

export type StreamEvent = Extract<ExecutorEvent, { type: "stream" }>;
export type StateEvent = Extract<ExecutorEvent, { type: "state" }>;

/** Runs a job. Returns its stream events and the one state that it must end with. */
export async function run(
  executor: Executor,
  job: Job,
  signal: AbortSignal = new AbortController().signal,
): Promise<{ events: StreamEvent[]; state: StateEvent }> {
  const events: StreamEvent[] = [];
  const states: StateEvent[] = [];
  for await (const event of executor.execute(job, signal, systemEnvironment())) {
    if (event.type === "stream") events.push(event);
    else if (event.type === "state") states.push(event);
  }
  const [state] = states;
  if (!state || states.length > 1) throw new Error(`${states.length} state events`);
  return { events, state };
}
