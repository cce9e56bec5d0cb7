import { systemEnvironment } from "../../../lib/environment.ts";
import type {
  CheckpointHandle,
  ExecutorEvent,
  Job,
  StoredCheckpoint,
  StreamMode,
} from "../../../lib/executor/contract.ts";
import { CoroutineIterator } from "../../../lib/executor/coroutine.ts";
import { execute } from "../../../lib/functions/execute.ts";
import type { AgentFunction } from "../../../lib/functions/mod.ts";
import type { Json, JsonObject } from "../../../lib/json.ts";
import { noStore } from "../../suite/no-store.ts";

export type State = Extract<ExecutorEvent, { type: "state" }>;

export const RUN = "11111111-2222-3333-4444-555555555555";

/** Runs a function and yields its events, those with a state first. */
export async function* runAgent(
  agent: AgentFunction,
  job: Job,
  {
    signal = new AbortController().signal,
    uuid = () => crypto.randomUUID(),
  }: { signal?: AbortSignal; uuid?: () => string } = {},
): AsyncGenerator<ExecutorEvent> {
  const call = execute({ agent }, job, signal, { ...systemEnvironment(), uuid });
  for await (const event of new CoroutineIterator(call, {
    handle: (event) => event,
    onEmitted() {},
    close: () => undefined,
  })) {
    if (event.type === "state") yield* event.frames ?? [];
    yield event;
  }
}

/** A thread that keeps what `recordStates` would keep. */
export class Thread {
  readonly states: State[] = [];
  readonly #stored: StoredCheckpoint[] = [];
  #counter = 0;
  readonly uuid = (): string => `id-${++this.#counter}`;

  readonly #checkpoints = {
    get: async ({ checkpoint_id }: { checkpoint_id?: string }) =>
      (checkpoint_id
        ? this.#stored.find((checkpoint) => checkpoint.checkpoint_id === checkpoint_id)
        : this.#stored.at(-1)) ?? null,
  } as unknown as CheckpointHandle;

  store(state: State, run_id: string): void {
    const json = (data: unknown): { type: string; data: string } => ({ type: "json", data: JSON.stringify(data) });
    this.states.push(state);
    const values = Object.entries(state.values as JsonObject);
    this.#stored.push({
      ns: "",
      checkpoint_id: String(this.#stored.length),
      parent_id: this.#stored.length === 0 ? null : String(this.#stored.length - 1),
      run_id,
      payload: json({ next: state.next, tasks: state.tasks }),
      metadata: { step: this.#stored.length - 1 },
      versions: {},
      values: values.map(([channel, value]) => ({ channel, version: "1", ...json(value) })),
      writes: [],
      created_at: 0,
    });
  }

  job(overrides: Partial<Job> = {}): Job {
    return {
      run_id: RUN,
      thread_id: "thread",
      assistant_id: "assistant",
      graph_id: "agent",
      user: null,
      store: noStore,
      stateless: false,
      attempt: 1,
      resumed: false,
      input: undefined,
      command: null,
      from: null,
      config: { configurable: {}, tags: ["t"] },
      context: {},
      metadata: { origin: "test" },
      modes: new Set(),
      subgraphs: false,
      interrupt_before: [],
      interrupt_after: [],
      durability: "async",
      checkpoints: this.#checkpoints,
      ...overrides,
    };
  }

  /** Runs to the end, or throws what the run throws; `seen` then holds what came before. */
  async run(
    agent: AgentFunction,
    overrides: Partial<Job> = {},
    events: ExecutorEvent[] = [],
  ): Promise<ExecutorEvent[]> {
    const job = this.job(overrides);
    for await (const event of runAgent(agent, job, this)) {
      events.push(event);
      if (event.type === "state") this.store(event, job.run_id);
    }
    return events;
  }

  get last(): State {
    return this.states.at(-1) as State;
  }

  get contents(): Json[] {
    const { messages } = this.last.values as { messages: JsonObject[] };
    return messages.map((message) => [message.type, message.content]) as Json[];
  }
}

export const modes = (...names: StreamMode[]): { modes: ReadonlySet<StreamMode> } => ({ modes: new Set(names) });

export const findStreamed = (events: readonly ExecutorEvent[], mode: StreamMode): JsonObject[] =>
  events.flatMap((event) => (event.type === "stream" && event.mode === mode ? [event.data as JsonObject] : []));

export const human = (content: string): JsonObject => ({ messages: [{ role: "user", content }] });
