/** A chat over the thread event protocol: commands, and one stream of events while the thread is busy. */
import { type Signal, signal } from "@preact/signals";
import { call, client, isAway, onReturn } from "../../api/client.ts";
import { respond, SEQS_PER_CLAIM, type StartedRun, sendCommand, threadEvents } from "../../api/events.ts";
import { Failure, formatError, isMissing } from "../../api/failure.ts";
import { declined } from "../../api/key.ts";
import type { RunDetail, WaitingFor, WaitingInterrupt } from "../../api/types.ts";
import { refresh } from "../../store/resource.ts";
import { Conversation, isRunEnd } from "./conversation.ts";
import { findMessages } from "./messages.ts";
import type { ChatSource, ChatState, Turn } from "./source.ts";

interface StateResponse {
  readonly values: unknown;
  readonly checkpoint: { readonly checkpoint_id: string } | null;
  readonly tasks: readonly {
    readonly id: string;
    readonly name: string;
    readonly interrupts: readonly (Pick<WaitingInterrupt, "value" | "response_schema"> & { readonly id?: string })[];
  }[];
}

interface ListedRun {
  readonly run_id: string;
  readonly status: string;
  readonly waiting_for?: readonly WaitingFor[];
}

const START: ChatState = {
  isNew: false,
  phase: "loading",
  messages: null,
  values: null,
  interrupts: [],
  nested: new Map(),
  times: new Map(),
  run_id: null,
  waiting_for: undefined,
  error: null,
  metadata: {},
  checkpoint_id: null,
  version: 0,
};

const CHANNELS = ["lifecycle", "values", "messages", "tools"];
/** The interval at which the newest run of an idle thread is read, in milliseconds. */
const POLL_INTERVAL_MS = 2000;
/**
 * Returns the interrupts of all tasks, each with its node and task. An interrupt without an id gets that of its task.
 */
const toInterrupts = ({ tasks }: StateResponse): WaitingInterrupt[] =>
  tasks.flatMap(({ id, name, interrupts }) =>
    interrupts.map((interrupt) => ({ ...interrupt, interrupt_id: interrupt.id ?? id, task_id: id, node: name })),
  );

/**
 * Returns a function that schedules `flush` before the next frame, or in 250 ms on a hidden page. Calls until then have
 * no further effect.
 */
function oncePerFrame(flush: () => void): () => void {
  let isScheduled = false;
  return () => {
    if (isScheduled) return;
    isScheduled = true;
    const runFlush = (): void => {
      isScheduled = false;
      flush();
    };
    // A hidden page has no pictures.
    if (document.hidden) setTimeout(runFlush, 250);
    else requestAnimationFrame(runFlush);
  };
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Resolves when the server answers again; at once if it is not away. */
const waitForServer = (): Promise<void> =>
  new Promise((resolve) => {
    if (!isAway.value) return resolve();
    const unsubscribe = onReturn(() => {
      unsubscribe();
      resolve();
    });
  });

class EventsSource implements ChatSource {
  readonly state: Signal<ChatState>;
  readonly #thread_id: string;
  readonly #unsubscribe: () => void;
  readonly #conversation = new Conversation();
  readonly #flush: () => void;
  #stream: AbortController | null = null;
  #since = 0;
  /** Counts reads and turns. A read is discarded if the number has changed since its start. */
  #generation = 0;
  /** The newest run and its status, as of the last read. */
  #newestRunKey = "";
  #head: string | null = null;
  #pollTimer: ReturnType<typeof setTimeout> | undefined;
  #isClosed = false;

  constructor(thread_id: string, isNew: boolean) {
    this.#thread_id = thread_id;
    this.state = signal<ChatState>(isNew ? { ...START, isNew: true, phase: "idle" } : START);
    this.#flush = oncePerFrame(() => {
      if (!this.#isClosed && this.#stream) this.#set(this.#getConversationState());
    });
    this.#unsubscribe = onReturn(() => void this.reload());
    if (isNew) return;
    void this.reload();
    this.#schedulePoll();
  }

  #set(change: Partial<ChatState>): void {
    this.state.value = { ...this.state.value, ...change };
  }

  /** Returns the members of the shown state that the conversation has; the others stay as they are. */
  #getConversationState(): Partial<ChatState> {
    const { values, messages, nested, times, run_id, error } = this.#conversation;
    return { values, messages, nested, times: new Map(times), run_id, error };
  }

  /**
   * Reads the thread and the state of the selected checkpoint. Follows the events of a busy thread; ends the stream of
   * any other one and shows its state, or that it is missing. An error is shown as text, so it never rejects. A later
   * call makes an earlier one drop its result.
   */
  async reload(): Promise<void> {
    const generation = ++this.#generation;
    const { checkpoint_id } = this.state.value;
    try {
      // Before the state: what begins meanwhile is noticed later.
      const newestRunKey = await this.#readNewestRunKey();
      const [thread, answer] = await Promise.all([
        client.threads.get(this.#thread_id),
        client.threads.getState(this.#thread_id, checkpoint_id ?? undefined) as unknown as Promise<StateResponse>,
      ]);
      if (this.#isClosed || generation !== this.#generation) return;
      this.#newestRunKey = newestRunKey;
      const metadata = (thread.metadata ?? {}) as Record<string, unknown>;
      if (thread.status === "busy") {
        if (!this.#stream) this.#conversation.settle(answer.values);
        this.#set({ ...this.#getConversationState(), metadata, interrupts: [] });
        if (!this.#stream) void this.#followRunningRun(generation);
        return;
      }
      this.#closeStream();
      this.#conversation.settle(answer.values);
      const { error } = thread as unknown as { readonly error?: { message?: string; error?: string } };
      const problem = error?.message ?? error?.error ?? this.#conversation.error ?? "The last run failed";
      this.#conversation.error = thread.status === "error" && checkpoint_id === null ? problem : null;
      if (checkpoint_id === null) this.#head = answer.checkpoint?.checkpoint_id ?? null;
      this.#set({ ...this.#getConversationState(), metadata, interrupts: toInterrupts(answer), phase: "idle" });
    } catch (error) {
      if (this.#isClosed || generation !== this.#generation || (error as Error).name === "AbortError") return;
      if (isMissing(error)) {
        this.#closeStream();
        this.#set({ phase: "missing" });
      } else if (!this.#stream) this.#set({ phase: "idle", error: formatError(error) });
    }
  }

  /**
   * Reloads the thread after a run ended here or elsewhere, raises `version`, and then starts to read threads, inbox and runs
   * again.
   */
  async #reloadAll(): Promise<void> {
    await this.reload();
    this.#set({ version: this.state.value.version + 1 });
    for (const list of ["threads/", "inbox", "runs/"]) void refresh(list);
  }

  /**
   * Shows the thread as running, and follows its run from the first event of the run's current claim; from the first
   * event of the thread if the run cannot be read. Does nothing more if another read has begun meanwhile.
   */
  async #followRunningRun(generation: number): Promise<void> {
    this.#set({ phase: "running" });
    const select = ["run_id", "status"] as never;
    const running = await client.runs.list(this.#thread_id, { status: "running", limit: 1, select }).catch(() => []);
    const run_id = running[0]?.run_id;
    const turn = run_id
      ? await call<RunDetail>("GET", `/greenroom/runs/${run_id}`).then(
          (run) => run.turn,
          () => 0,
        )
      : 0;
    if (!this.#isClosed && generation === this.#generation && !this.#stream)
      void this.#follow(turn * SEQS_PER_CLAIM - 1);
  }

  /** Ends the stream of events, if there is one. The run goes on. */
  #closeStream(): void {
    this.#stream?.abort();
    this.#stream = null;
  }

  /**
   * Reads events after `since` until the stream is closed, and reconnects after errors and restarts of the server. The
   * end of a run reloads the thread, which closes the stream if nothing runs. An error status below 500 ends it and is
   * shown. Does nothing if a stream is open.
   */
  async #follow(since: number): Promise<void> {
    if (this.#stream) return;
    const controller = new AbortController();
    this.#stream = controller;
    this.#since = Math.max(0, this.#since, since);
    this.#set({ phase: "running" });
    while (!controller.signal.aborted) {
      try {
        const filter = { channels: CHANNELS, since: this.#since };
        for await (const event of threadEvents(this.#thread_id, filter, controller.signal)) {
          this.#since = event.seq;
          this.#conversation.handleEvent(event);
          this.#flush();
          if (isRunEnd(event)) void this.#reloadAll();
        }
      } catch (error) {
        if (controller.signal.aborted) return;
        if (error instanceof Failure && error.status >= 400 && error.status < 500) {
          this.#closeStream();
          this.#set({ phase: "idle", error: formatError(error) });
          return;
        }
      }
      // The server stops, or the thread was deleted: the next reading says which.
      await sleep(300);
      await waitForServer();
      if (!controller.signal.aborted) await this.reload();
    }
  }

  /**
   * Starts the timer of the next poll, in place of a running one, and repeats that after each poll. Polls find runs and
   * answers from elsewhere, and a run that sleeps or wakes. Does nothing once the source is closed.
   */
  #schedulePoll(): void {
    clearTimeout(this.#pollTimer);
    if (this.#isClosed) return;
    this.#pollTimer = setTimeout(() => {
      this.#poll().finally(() => this.#schedulePoll());
    }, POLL_INTERVAL_MS);
  }

  /**
   * Compares the newest run with the last known one, and reads everything again if it differs; while events stream,
   * reads only what the run waits for. Does nothing while the page is hidden, shows an older state, or cannot reach the
   * server. Never shows an error, except that the thread is missing.
   */
  async #poll(): Promise<void> {
    const { phase, checkpoint_id } = this.state.value;
    if (document.hidden || isAway.value || declined.value) return;
    if (checkpoint_id !== null || (phase !== "idle" && !this.#stream)) return;
    const generation = this.#generation;
    try {
      if (this.#stream) return void (await this.#readNewestRunKey());
      const newestRunKey = await this.#readNewestRunKey();
      if (generation === this.#generation && newestRunKey !== this.#newestRunKey) await this.#reloadAll();
    } catch (error) {
      if (isMissing(error)) await this.reload();
    }
  }

  /**
   * Resolves with the id and status of the newest run as one text; an empty one without a run. Also shows what the
   * first waiting run among the newest five waits for.
   */
  async #readNewestRunKey(): Promise<string> {
    const select = ["run_id", "status", "waiting_for"] as never;
    // Others may wait behind the one that sleeps.
    const runs = (await client.runs.list(this.#thread_id, { limit: 5, select })) as unknown as readonly ListedRun[];
    const { waiting_for } = runs.find((run) => run.waiting_for) ?? {};
    if (JSON.stringify(waiting_for) !== JSON.stringify(this.state.value.waiting_for)) this.#set({ waiting_for });
    const [run] = runs;
    return run ? `${run.run_id} ${run.status}` : "";
  }

  /**
   * Shows the messages of the input at once, and starts a run from the selected state, or from the head while the thread waits
   * for an answer. Rejects if the run is refused.
   */
  async send(turn: Turn): Promise<void> {
    const { value } = this.state;
    const selectedCheckpoint = turn.checkpoint_id === undefined ? value.checkpoint_id : turn.checkpoint_id;
    // The input of a thread that waits would be taken for the answer. A new turn begins at its head instead.
    const from = selectedCheckpoint ?? (value.interrupts.length > 0 ? this.#head : null);
    const { input = null, context = {}, assistant_id } = turn;
    this.#conversation.send(findMessages(input) ?? [], turn.after);
    await this.#startRun(() =>
      sendCommand(this.#thread_id, "run.start", {
        ...{ assistant_id, input },
        ...(Object.keys(context).length > 0 ? { context } : {}),
        ...(from ? { config: { configurable: { checkpoint_id: from } } } : {}),
      }),
    );
  }

  answer(answers: Readonly<Record<string, unknown>>): Promise<void> {
    return this.#startRun(() => respond(this.#thread_id, answers));
  }

  /**
   * Shows the thread as running and without an error or a selected checkpoint, calls `start` and follows the run. Then the
   * interrupts are gone, and the list of threads is read again. If `start` fails, takes back the messages of the turn, reads the
   * thread again unless it is new, and rejects.
   */
  async #startRun(start: () => Promise<StartedRun>): Promise<void> {
    this.#generation++;
    this.#set({ ...this.#getConversationState(), phase: "running", error: null, checkpoint_id: null });
    try {
      const { since } = await start();
      this.#generation++;
      this.#set({ interrupts: [], isNew: false });
      if (this.#pollTimer === undefined) this.#schedulePoll();
      void refresh("threads/");
      if (!this.#stream) void this.#follow(since);
    } catch (error) {
      // Nothing began: what the person typed is theirs again.
      this.#conversation.unsend();
      this.#set({ ...this.#getConversationState(), phase: this.#stream ? "running" : "idle" });
      if (this.#pollTimer !== undefined && !this.#stream && !declined.value) await this.reload();
      throw error;
    }
  }

  /** Cancels the running run, else the waiting one. Does nothing if there is none. */
  async stop(): Promise<void> {
    const { run_id } = this.state.value;
    const find = async (status: "running" | "pending"): Promise<string | undefined> =>
      (await client.runs.list(this.#thread_id, { status, limit: 1 }))[0]?.run_id;
    const runToStop = run_id ?? (await find("running")) ?? (await find("pending"));
    if (runToStop) await client.runs.cancel(this.#thread_id, runToStop, false, "interrupt");
  }

  /** Shows the state of a checkpoint, or of the head for null. Resolves when it is read. */
  async show(checkpoint_id: string | null): Promise<void> {
    this.#set({ checkpoint_id });
    await this.reload();
  }

  /** Ends the stream and the polls for good. */
  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#pollTimer);
    this.#unsubscribe();
    this.#closeStream();
  }
}

const sources = new Map<string, { readonly source: ChatSource; users: number }>();

/** Returns the source of a thread, shared by all views of the thread, also of one that was just created. */
export function getOrCreateSource(thread_id: string, isNew = false): ChatSource {
  const existing = sources.get(thread_id);
  if (existing) return existing.source;
  const source = new EventsSource(thread_id, isNew);
  sources.set(thread_id, { source, users: 0 });
  return source;
}

/**
 * Keeps the source of a thread open until the result is called, which must happen once. A source without holders closes a second later,
 * because the next view may need it. Does nothing if the thread has no source.
 */
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
