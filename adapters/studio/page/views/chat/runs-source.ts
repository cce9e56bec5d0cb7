/** A chat over the runs routes: one stream for each run, `values` and `messages-tuple`. */
import { signal } from "@preact/signals";
import { client, onReturn } from "../../api/client.ts";
import { isMissing, textOf } from "../../api/failure.ts";
import type { WaitingInterrupt } from "../../api/types.ts";
import { refresh } from "../../store/resource.ts";
import { type Message, messagesOf, withPiece } from "./messages.ts";
import type { ChatSource, ChatState, Nested, Turn } from "./source.ts";

interface StateAnswer {
  readonly values: unknown;
  readonly tasks: readonly {
    readonly id: string;
    readonly name: string;
    readonly error?: unknown;
    readonly interrupts: readonly { readonly id?: string; readonly value: unknown }[];
  }[];
}

type Frame = { readonly id?: string; readonly event: string; readonly data: unknown };

const START: ChatState = {
  phase: "loading",
  messages: null,
  values: null,
  interrupts: [],
  nested: new Map(),
  run_id: null,
  error: null,
  metadata: {},
  checkpoint_id: null,
  version: 0,
};

const interruptsOf = ({ tasks }: StateAnswer): WaitingInterrupt[] =>
  tasks.flatMap(({ id, name, interrupts }) =>
    interrupts.map((one) => ({ interrupt_id: one.id ?? id, task_id: id, node: name, value: one.value })),
  );

/** Calls `flush` once before the next picture, however often it is asked. */
function perFrame(flush: () => void): () => void {
  let isDue = false;
  return () => {
    if (isDue) return;
    isDue = true;
    const run = (): void => {
      isDue = false;
      flush();
    };
    // A hidden page has no pictures.
    if (document.hidden) setTimeout(run, 250);
    else requestAnimationFrame(run);
  };
}

/** The conversation that a run's frames make. */
class Draft {
  #settled: readonly Message[] | null;
  readonly #pieces = new Map<string, Message>();
  readonly #nested = new Map<string, { name: string; pieces: Map<string, Message> }>();
  values: unknown;

  constructor(values: unknown, messages: readonly Message[] | null) {
    this.values = values;
    this.#settled = messages;
  }

  settle(values: unknown): void {
    this.values = values;
    this.#settled = messagesOf(values);
    this.#pieces.clear();
  }

  piece(message: Message, metadata: Readonly<Record<string, unknown>>): void {
    const path = String(metadata["langgraph_checkpoint_ns"] ?? "").split("|");
    const id = message.id ?? "";
    if (path.length > 1) {
      const [scope = ""] = path;
      const nested = this.#nested.get(scope) ?? { name: scope.split(":")[0] ?? scope, pieces: new Map() };
      nested.pieces.set(id, withPiece(nested.pieces.get(id), message));
      this.#nested.set(scope, nested);
      return;
    }
    const known = this.#pieces.get(id);
    this.#pieces.set(id, withPiece(known, message));
  }

  get messages(): readonly Message[] | null {
    const pieces = [...this.#pieces.values()];
    if (!this.#settled) return pieces.length > 0 ? pieces : null;
    const known = new Set(this.#settled.map(({ id }) => id));
    return [...this.#settled, ...pieces.filter(({ id }) => id === undefined || !known.has(id))];
  }

  get nested(): ReadonlyMap<string, Nested> {
    return new Map(
      [...this.#nested].map(([scope, { name, pieces }]) => [scope, { name, messages: [...pieces.values()] }]),
    );
  }
}

const MODES = ["values", "messages-tuple"] as const;

export function runsSource(thread_id: string, isNew = false): ChatSource {
  const state = signal<ChatState>(isNew ? { ...START, phase: "idle" } : START);
  const set = (change: Partial<ChatState>): void => {
    state.value = { ...state.value, ...change };
  };
  let reading = new AbortController();
  let isClosed = false;

  /** Reads the thread; joins its run if one is under way. */
  async function reload(): Promise<void> {
    const { checkpoint_id } = state.value;
    try {
      const [thread, answer] = await Promise.all([
        client.threads.get(thread_id),
        client.threads.getState(thread_id, checkpoint_id ?? undefined) as unknown as Promise<StateAnswer>,
      ]);
      if (isClosed) return;
      const failed = thread.status === "error" && checkpoint_id === null;
      const { error } = thread as unknown as {
        readonly error?: { readonly message?: string; readonly error?: string };
      };
      set({
        values: answer.values,
        messages: messagesOf(answer.values),
        interrupts: interruptsOf(answer),
        metadata: (thread.metadata ?? {}) as Record<string, unknown>,
        error: failed ? (error?.message ?? error?.error ?? "The last run failed") : null,
        phase: "idle",
      });
      if (thread.status === "busy") void join();
    } catch (error) {
      if (isClosed || (error as Error).name === "AbortError") return;
      if (isMissing(error)) set({ phase: "missing" });
      else set({ phase: "idle", error: textOf(error) });
    }
  }

  async function consume(frames: AsyncIterable<Frame>, own: AbortController): Promise<void> {
    const draft = new Draft(state.value.values, state.value.messages);
    const flush = perFrame(() => {
      if (own.signal.aborted || isClosed) return;
      set({ values: draft.values, messages: draft.messages, nested: draft.nested });
    });
    for await (const { event, data } of frames) {
      if (own.signal.aborted) return;
      const [name = ""] = event.split("|");
      if (name === "metadata") set({ run_id: (data as { readonly run_id: string }).run_id });
      else if (event === "values" && !Object.hasOwn(data as object, "__interrupt__")) draft.settle(data);
      else if (name === "messages" && Array.isArray(data)) draft.piece(data[0] as Message, data[1] ?? {});
      else if (event === "error") {
        const { message, error } = data as { readonly message?: string; readonly error?: string };
        set({ error: message ?? error ?? "The run failed" });
      }
      flush();
    }
  }

  /** Follows a run to its end, then reads what it left. */
  async function follow(open: (signal: AbortSignal) => AsyncIterable<Frame>): Promise<void> {
    reading.abort();
    const own = new AbortController();
    reading = own;
    set({ phase: "running", nested: new Map(), run_id: null });
    let problem: unknown = null;
    try {
      await consume(open(own.signal), own);
    } catch (error) {
      if (own.signal.aborted) return;
      problem = error;
    }
    if (own.signal.aborted || isClosed) return;
    const { error, run_id } = state.value;
    set({ run_id: null });
    await reload();
    // Nothing began: what the person typed is theirs again.
    if (problem && run_id === null) throw problem;
    if (problem ?? error) set({ error: problem ? textOf(problem) : error });
    set({ version: state.value.version + 1, nested: new Map() });
    refresh("threads/");
    refresh("inbox");
  }

  async function join(): Promise<void> {
    const [run] = await client.runs.list(thread_id, { status: "running", limit: 1 });
    const found = run ?? (await client.runs.list(thread_id, { status: "pending", limit: 1 }))[0];
    if (!found || isClosed) return;
    await follow((abort) =>
      client.runs.joinStream(thread_id, found.run_id, {
        signal: abort,
        lastEventId: "-1",
        streamMode: [...MODES] as never,
      }),
    );
  }

  async function send(turn: Turn): Promise<void> {
    const from = turn.checkpoint_id === undefined ? state.value.checkpoint_id : turn.checkpoint_id;
    const added = turn.resume === undefined ? (messagesOf(turn.input) ?? []) : [];
    set({
      error: null,
      checkpoint_id: null,
      interrupts: turn.resume === undefined ? state.value.interrupts : [],
      ...(added.length > 0 || turn.after
        ? { messages: [...(turn.after ?? state.value.messages ?? []), ...added] }
        : {}),
    });
    refresh("threads/");
    await follow(
      (abort) =>
        client.runs.stream(thread_id, turn.assistant_id, {
          ...(turn.resume === undefined
            ? { input: (turn.input ?? null) as Record<string, unknown> | null }
            : { command: { resume: turn.resume } }),
          ...(turn.context && Object.keys(turn.context).length > 0 ? { context: turn.context } : {}),
          ...(from ? { checkpointId: from } : {}),
          streamMode: [...MODES] as never,
          streamSubgraphs: true,
          streamResumable: true,
          onDisconnect: "continue",
          multitaskStrategy: "enqueue",
          signal: abort,
        }) as AsyncIterable<Frame>,
    );
  }

  const leave = onReturn(() => void reload());
  if (!isNew) void reload();
  return {
    state,
    send,
    reload,
    async stop() {
      const { run_id } = state.value;
      const found = run_id ?? (await client.runs.list(thread_id, { status: "running", limit: 1 }))[0]?.run_id;
      if (found) await client.runs.cancel(thread_id, found, false, "interrupt");
    },
    async show(checkpoint_id) {
      set({ checkpoint_id });
      await reload();
    },
    close() {
      isClosed = true;
      leave();
      reading.abort();
    },
  };
}

const sources = new Map<string, { readonly source: ChatSource; users: number }>();

/** The source of a thread, shared by all that show it, and by a thread that was just made. */
export function sourceOf(thread_id: string, isNew = false): ChatSource {
  const known = sources.get(thread_id);
  if (known) return known.source;
  const source = runsSource(thread_id, isNew);
  sources.set(thread_id, { source, users: 0 });
  return source;
}

export function holdSource(thread_id: string): () => void {
  const entry = sources.get(thread_id);
  if (!entry) return () => {};
  entry.users += 1;
  return () => {
    entry.users -= 1;
    // The next view of the same thread may be about to take it.
    setTimeout(() => {
      if (entry.users > 0 || sources.get(thread_id) !== entry) return;
      sources.delete(thread_id);
      entry.source.close();
    }, 1000);
  };
}
