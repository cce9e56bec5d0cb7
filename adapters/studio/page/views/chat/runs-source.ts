/** A chat over the runs routes: one stream for each run, `values` and `messages-tuple`. */
import { type Signal, signal } from "@preact/signals";
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
  #complete: readonly Message[] | null;
  readonly #pieces = new Map<string, Message>();
  readonly #nested = new Map<string, { name: string; pieces: Map<string, Message> }>();
  values: unknown;

  constructor(values: unknown, messages: readonly Message[] | null) {
    this.values = values;
    this.#complete = messages;
  }

  settle(values: unknown): void {
    this.values = values;
    this.#complete = messagesOf(values);
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
    if (!this.#complete) return pieces.length > 0 ? pieces : null;
    const known = new Set(this.#complete.map(({ id }) => id));
    return [...this.#complete, ...pieces.filter(({ id }) => id === undefined || !known.has(id))];
  }

  get nested(): ReadonlyMap<string, Nested> {
    return new Map(
      [...this.#nested].map(([scope, { name, pieces }]) => [scope, { name, messages: [...pieces.values()] }]),
    );
  }
}

const MODES = ["values", "messages-tuple"] as const;

class RunsSource implements ChatSource {
  readonly state: Signal<ChatState>;
  readonly #thread_id: string;
  readonly #leave: () => void;
  #reading = new AbortController();
  #isClosed = false;

  constructor(thread_id: string, isNew: boolean) {
    this.#thread_id = thread_id;
    this.state = signal<ChatState>(isNew ? { ...START, phase: "idle" } : START);
    this.#leave = onReturn(() => void this.reload());
    if (!isNew) void this.reload();
  }

  #set(change: Partial<ChatState>): void {
    this.state.value = { ...this.state.value, ...change };
  }

  /** Reads the thread; joins its run if one is under way. */
  async reload(): Promise<void> {
    const { checkpoint_id } = this.state.value;
    try {
      const [thread, answer] = await Promise.all([
        client.threads.get(this.#thread_id),
        client.threads.getState(this.#thread_id, checkpoint_id ?? undefined) as unknown as Promise<StateAnswer>,
      ]);
      if (this.#isClosed) return;
      const failed = thread.status === "error" && checkpoint_id === null;
      const { error } = thread as unknown as {
        readonly error?: { readonly message?: string; readonly error?: string };
      };
      this.#set({
        values: answer.values,
        messages: messagesOf(answer.values),
        interrupts: interruptsOf(answer),
        metadata: (thread.metadata ?? {}) as Record<string, unknown>,
        error: failed ? (error?.message ?? error?.error ?? "The last run failed") : null,
        phase: "idle",
      });
      if (thread.status === "busy") void this.#join();
    } catch (error) {
      if (this.#isClosed || (error as Error).name === "AbortError") return;
      if (isMissing(error)) this.#set({ phase: "missing" });
      else this.#set({ phase: "idle", error: textOf(error) });
    }
  }

  async #consume(frames: AsyncIterable<Frame>, own: AbortController): Promise<void> {
    const draft = new Draft(this.state.value.values, this.state.value.messages);
    const flush = perFrame(() => {
      if (own.signal.aborted || this.#isClosed) return;
      this.#set({ values: draft.values, messages: draft.messages, nested: draft.nested });
    });
    for await (const { event, data } of frames) {
      if (own.signal.aborted) return;
      const [name = ""] = event.split("|");
      if (name === "metadata") this.#set({ run_id: (data as { readonly run_id: string }).run_id });
      else if (event === "values" && !Object.hasOwn(data as object, "__interrupt__")) draft.settle(data);
      else if (name === "messages" && Array.isArray(data)) draft.piece(data[0] as Message, data[1] ?? {});
      else if (event === "error") {
        const { message, error } = data as { readonly message?: string; readonly error?: string };
        this.#set({ error: message ?? error ?? "The run failed" });
      }
      flush();
    }
  }

  /** Follows a run to its end, then reads what it left. */
  async #follow(open: (signal: AbortSignal) => AsyncIterable<Frame>): Promise<void> {
    this.#reading.abort();
    const own = new AbortController();
    this.#reading = own;
    this.#set({ phase: "running", nested: new Map(), run_id: null });
    let problem: unknown = null;
    try {
      await this.#consume(open(own.signal), own);
    } catch (error) {
      if (own.signal.aborted) return;
      problem = error;
    }
    if (own.signal.aborted || this.#isClosed) return;
    const { error, run_id } = this.state.value;
    this.#set({ run_id: null });
    await this.reload();
    // Nothing began: what the person typed is theirs again.
    if (problem && run_id === null) throw problem;
    if (problem ?? error) this.#set({ error: problem ? textOf(problem) : error });
    this.#set({ version: this.state.value.version + 1, nested: new Map() });
    refresh("threads/");
    refresh("inbox");
  }

  async #join(): Promise<void> {
    const [run] = await client.runs.list(this.#thread_id, { status: "running", limit: 1 });
    const found = run ?? (await client.runs.list(this.#thread_id, { status: "pending", limit: 1 }))[0];
    if (!found || this.#isClosed) return;
    await this.#follow((abort) =>
      client.runs.joinStream(this.#thread_id, found.run_id, {
        signal: abort,
        lastEventId: "-1",
        streamMode: [...MODES] as never,
      }),
    );
  }

  async send(turn: Turn): Promise<void> {
    const { value } = this.state;
    const from = turn.checkpoint_id === undefined ? value.checkpoint_id : turn.checkpoint_id;
    const added = turn.resume === undefined ? (messagesOf(turn.input) ?? []) : [];
    this.#set({
      error: null,
      checkpoint_id: null,
      interrupts: turn.resume === undefined ? value.interrupts : [],
      ...(added.length > 0 || turn.after ? { messages: [...(turn.after ?? value.messages ?? []), ...added] } : {}),
    });
    refresh("threads/");
    await this.#follow(
      (abort) =>
        client.runs.stream(this.#thread_id, turn.assistant_id, {
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

  async stop(): Promise<void> {
    const { run_id } = this.state.value;
    const found = run_id ?? (await client.runs.list(this.#thread_id, { status: "running", limit: 1 }))[0]?.run_id;
    if (found) await client.runs.cancel(this.#thread_id, found, false, "interrupt");
  }

  async show(checkpoint_id: string | null): Promise<void> {
    this.#set({ checkpoint_id });
    await this.reload();
  }

  close(): void {
    this.#isClosed = true;
    this.#leave();
    this.#reading.abort();
  }
}

const sources = new Map<string, { readonly source: ChatSource; users: number }>();

/** The source of a thread, shared by all that show it, and by a thread that was just made. */
export function sourceOf(thread_id: string, isNew = false): ChatSource {
  const known = sources.get(thread_id);
  if (known) return known.source;
  const source = new RunsSource(thread_id, isNew);
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
