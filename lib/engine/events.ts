/** What the engine makes of an executor's events: frames of the requested stream modes, and events of the thread. */
import type { Environment } from "../environment.ts";
import { ContentBlocks } from "../executor/content-blocks.ts";
import {
  type ExecutorEvent,
  type GraphInfo,
  type Job,
  ResumeRefused,
  type StateEvent,
  type StreamEvent,
  type StreamMode,
} from "../executor/contract.ts";
import { answeredBefore } from "../executor/kwargs.ts";
import { type MessageFrame, MessageFrames } from "../executor/messages.ts";
import type { AttemptReport } from "../features/mod.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import {
  type ClaimedRun,
  type EventMethod,
  type EventPage,
  eventSeq,
  type Scope,
  type Storage,
  type TerminalStatus,
  type ThreadEvent,
  type TraceUsage,
} from "../storage/mod.ts";
import { refusedResume } from "../streams/run-subscription.ts";
import { decodeStoredEvent, encodeEvent, type NewEvent } from "../streams/thread-event.ts";
import { OpenEvents } from "./open-events.ts";
import type { OutputBuffer } from "./output-buffer.ts";

/** The prices of models in US dollars per million tokens. */
export type Prices = Readonly<Record<string, { readonly tokens_in: number; readonly tokens_out: number }>>;

type UsageEvent = Extract<ExecutorEvent, { type: "usage" }>;

interface EventMapperOptions {
  /** The modes of the request. */
  readonly requested: ReadonlySet<StreamMode>;
  /** Reads the state that a retry continues from, if subscribers of `values` must see it first. */
  readonly resumedValues: (() => Promise<Json | undefined>) | null;
  /** Holds frames of an interrupt until the state that they describe. */
  readonly output: Pick<OutputBuffer, "emitFrame" | "holdOutput" | "releaseOutput">;
  readonly recorder: EventRecorder | null;
  readonly prices: Prices;
  /** The run must stop: events that still arrive are not shown. */
  isStopped(): boolean;
}

/** Maps the events of an executor to frames of the requested stream modes. */
export interface EventMapper {
  /** No promise where there is nothing to wait for: there is one event per token. */
  take(event: ExecutorEvent): Promise<void> | undefined;
  /** The last state, with its checkpoint. */
  last(): StateEvent | null;
  /** The sum of all usage events; null without any. */
  usage(): TraceUsage | null;
  /** What an attempt has reported that another attempt of its open journal repeats. */
  readonly retried: AttemptReport;
}

export function createEventMapper(options: EventMapperOptions): EventMapper {
  const { requested, recorder, output, prices, isStopped } = options;
  const messageFrames = new MessageFrames();
  let { resumedValues } = options;
  let last: StateEvent | null = null;
  let usage: TraceUsage | null = null;
  /** Without what another attempt reports again. */
  let lasting: TraceUsage | null = null;

  function showStream(event: StreamEvent): void {
    const { mode, namespace = [], data } = event;
    if (mode === "messages-tuple") {
      if (requested.has("messages-tuple")) output.emitFrame("messages", data, namespace);
      if (requested.has("messages") && Array.isArray(data)) {
        showMessages(messageFrames.chunk(data[0] as JsonObject, (data[1] ?? {}) as JsonObject, namespace));
      }
    } else if (mode === "messages") {
      if (requested.has("messages")) showMessages(messageFrames.finish(data));
    } else if (requested.has(mode)) {
      output.emitFrame(mode, data, namespace);
    }
    recorder?.take(event);
  }

  function showMessages(frames: readonly MessageFrame[]): void {
    for (const { event, namespace, data } of frames) output.emitFrame(event, data, namespace);
  }

  /** Shows the state that a retry continues from, unless the executor shows it first. */
  async function showResumedValues(first: StreamEvent | StateEvent): Promise<void> {
    if (!resumedValues || (first.type === "stream" && (isStopped() || first.mode === "events"))) return;
    const read = resumedValues;
    resumedValues = null;
    const shown = first.type === "state" ? (first.frames ?? []) : [first];
    if (shown.some((one) => one.type === "stream" && one.mode === "values" && !one.namespace?.length)) return;
    const values = await read();
    if (values !== undefined && !isStopped()) output.emitFrame("values", values);
  }

  function takeStream(event: StreamEvent): void {
    if (isStopped()) return;
    const interrupt = isInterrupt(event);
    if (interrupt && event.namespace?.length) output.holdOutput();
    showStream(event);
    if (interrupt && !event.namespace?.length) output.releaseOutput();
  }

  function takeState(event: StateEvent): void {
    last = event;
    output.releaseOutput();
    for (const shown of event.frames ?? []) showStream(shown);
    recorder?.take(event);
    if (requested.has("messages") && isObject(event.values)) showMessages(messageFrames.finish(event.values.messages));
  }

  const takeShown = (event: StreamEvent | StateEvent): void =>
    event.type === "stream" ? takeStream(event) : takeState(event);

  function takeUsage({ tokens_in = 0, tokens_out = 0, model = "", repeats = false, ...event }: UsageEvent): void {
    const price = Object.hasOwn(prices, model) ? prices[model] : undefined;
    const { cost_usd = price ? (tokens_in * price.tokens_in + tokens_out * price.tokens_out) / 1e6 : 0 } = event;
    if (![tokens_in, tokens_out].every((count) => Number.isSafeInteger(count) && count >= 0) || !(cost_usd >= 0)) {
      throw new Error("The executor reported invalid usage: values must be non-negative numbers, tokens integers");
    }
    const more: TraceUsage = { tokens_in, tokens_out, cost_usd };
    usage = sum(usage, more);
    if (!repeats) lasting = sum(lasting, more);
  }

  return {
    last: () => last,
    usage: () => usage,
    retried: { usage: () => lasting },
    take(event) {
      if (event.type === "stream" || event.type === "state") {
        if (resumedValues) return showResumedValues(event).then(() => takeShown(event));
        takeShown(event);
        return undefined;
      }
      if (event.type === "event") {
        if (!isStopped()) recorder?.take(event);
        return undefined;
      }
      if (event.type !== "usage") {
        throw new Error(
          "The executor yielded something that is neither a stream, a state, a protocol nor a usage event",
        );
      }
      takeUsage(event);
      return undefined;
    },
  };
}

/** The most tokens and US dollars that count of an attempt: numbers in reports stay finite. */
const MOST_USED = 1e12;

const added = (sum = 0, more: number): number => Math.min(sum + more, MOST_USED);

const sum = (total: TraceUsage | null, more: TraceUsage): TraceUsage => ({
  tokens_in: added(total?.tokens_in, more.tokens_in),
  tokens_out: added(total?.tokens_out, more.tokens_out),
  cost_usd: added(total?.cost_usd, more.cost_usd),
});

/** It shows an interrupt. LangGraph has stored its own before, but that of a subgraph only for the subgraph. */
function isInterrupt({ mode, data }: StreamEvent): boolean {
  return (mode === "values" || mode === "updates") && isObject(data) && "__interrupt__" in data;
}

interface EventRecorderOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly graph: GraphInfo;
  readonly claimed: ClaimedRun;
  readonly job: Job;
  record(event: Omit<ThreadEvent, "seq">, end?: boolean): void;
  /** Repeats a call of the store while it fails, for a limited time. */
  retry<Answer>(call: () => Promise<Answer>): Promise<Answer>;
}

/** How a run ends. */
interface RecordedEnd {
  readonly status: TerminalStatus;
  readonly error: JsonObject | null;
  /** The run stopped at interrupts or a breakpoint. */
  readonly waits: boolean;
  /** What the executor threw. */
  readonly failure: unknown;
}

/** Records the events of a run for the event protocol: its lifecycle, and what its executor does. */
export interface EventRecorder {
  /** Records that the run has started; after a crash, closes what earlier attempts have left open. A promise only if it must read. */
  begin(): Promise<void> | undefined;
  /** Records what an event of the executor shows. */
  take(event: ExecutorEvent): void;
  /** Records interrupts that wait for another answer, because the run that answered them has failed. */
  request(interrupts: readonly JsonObject[]): void;
  /** Records the end of the run: the last event. */
  end(end: RecordedEnd): Promise<void> | undefined;
}

/** How many turns back the events of earlier attempts are read. */
const TURNS = 100;
const EARLIER: ReadonlySet<EventMethod> = new Set(["lifecycle", "messages", "input.requested"]);

/** Null for threads whose events have no reader. */
export function createEventRecorder(options: EventRecorderOptions): EventRecorder | null {
  const { environment, graph, claimed, job } = options;
  const { run, thread } = claimed;
  if ((job.events ?? "none") === "none") return null;
  const all = job.events === "all";
  const derive = graph.protocol_events ? null : createEventDeriver(all, job.durability !== "exit");
  const open = new OpenEvents();
  const requested = new Set<Json>();
  let running = false;
  let read = run.claims === 1;

  const record = (event: NewEvent, end = false): void => options.record(encodeEvent(event, environment.now()), end);

  const recordRoot = (method: EventMethod, data: Json, end = false): void =>
    record({ method, namespace: [], data }, end);

  function takeYielded(event: YieldedEvent): void {
    const { method, data } = event;
    open.follow(event);
    if (method === "input.requested") {
      const { interrupt_id = null } = isObject(data) ? data : {};
      if (requested.has(interrupt_id)) return;
      requested.add(interrupt_id);
    }
    record(event);
  }

  /** Reads what earlier attempts of this run have recorded. */
  async function readEarlier(): Promise<void> {
    const { storage, scope } = options;
    let after: number | null = Math.max(0, eventSeq(run.turn - TURNS, 0));
    while (after !== null) {
      const query: { readonly after: number; readonly methods: typeof EARLIER } = { after, methods: EARLIER };
      const page: EventPage = await options.retry(() => storage.readEvents(scope, run.thread_id, query));
      for (const stored of page.events) {
        if (stored.run_id !== run.run_id) continue;
        const event = decodeStoredEvent(stored);
        open.follow(event);
        if (event.method === "input.requested" && isObject(event.data)) requested.add(event.data.interrupt_id ?? null);
        running ||= event.namespace.length === 0;
      }
      after = page.more ? page.read_to : null;
    }
    // A read that failed is made again before the end.
    read = true;
  }

  function begun(): void {
    for (const end of open.close({ event: "interrupted" }, "The run was interrupted, and starts again")) record(end);
    if (!running) recordRoot("lifecycle", { event: "running", graph_name: run.graph_id });
    const answered = job.resumed ? [] : answeredIds(job, thread.interrupts);
    if (answered.length > 0) recordRoot("input.answered", { interrupt_ids: answered });
  }

  function ended({ status, error, waits, failure }: RecordedEnd): void {
    const event = error ? "failed" : status === "interrupted" || waits ? "interrupted" : "completed";
    const message = typeof error?.message === "string" ? error.message : undefined;
    for (const end of open.close({ event }, message ?? "The run was stopped")) record(end);
    const data: JsonObject = {
      event,
      graph_name: run.graph_id,
      ...(message === undefined ? {} : { error: message }),
      ...(failure instanceof ResumeRefused ? refusedResume(failure) : {}),
    };
    recordRoot("lifecycle", data, true);
  }

  return {
    begin: () => (read ? void begun() : readEarlier().then(begun)),
    take(event) {
      if (event.type === "event") takeYielded(event);
      else for (const derived of derive?.(event) ?? []) takeYielded(derived);
    },
    request(interrupts) {
      for (const { id = null, value = null } of interrupts) {
        const data = { interrupt_id: id, payload: value, value };
        takeYielded({ method: "input.requested", namespace: [], data });
      }
    },
    // It is not read if the run was stopped before this attempt began.
    end: (end) => (read ? void ended(end) : readEarlier().then(() => ended(end))),
  };
}

/** The ids of the interrupts that a run answers, if all of them are pending on its thread. */
function answeredIds({ resume_targets = [] }: Job, interrupts: JsonObject): string[] {
  const pending = new Set(
    Object.values(interrupts)
      .flatMap((list) => (Array.isArray(list) ? list : []))
      .flatMap((interrupt) => (isObject(interrupt) ? [`${answeredBefore(interrupt)} ${interrupt.id}`] : [])),
  );
  const isPending = resume_targets.every(({ interrupt_id, answered }) => pending.has(`${answered} ${interrupt_id}`));
  return isPending ? resume_targets.flatMap(({ interrupt_id }) => interrupt_id ?? []) : [];
}

/** An event as executors yield it. */
type YieldedEvent = Omit<Extract<ExecutorEvent, { type: "event" }>, "type">;

/**
 * Makes protocol events of the root graph from what simple executors yield. `all`: every method, otherwise only states and interrupts.
 * `stored`: the checkpoint of every state is stored, with its values.
 */
function createEventDeriver(all: boolean, stored: boolean): (event: ExecutorEvent) => YieldedEvent[] {
  const blocks = all ? new ContentBlocks() : null;

  const messages = (list: readonly Omit<YieldedEvent, "method">[]): YieldedEvent[] =>
    list.map((event) => ({ ...event, method: "messages" }));

  function takeStream({ mode, namespace = [], data }: StreamEvent): YieldedEvent[] {
    switch (mode) {
      case "messages-tuple": {
        const [message, metadata] = (Array.isArray(data) ? data : []) as [JsonObject?, JsonObject?];
        return message && blocks ? messages(blocks.chunk(message, metadata ?? {})) : [];
      }
      case "messages":
        return blocks && Array.isArray(data) ? messages(blocks.finish(data)) : [];
      case "updates":
        if (!isObject(data) || "__interrupt__" in data) return [];
        return Object.entries(data).map(([node, values]) => ({
          method: "updates",
          namespace,
          node,
          data: { node, values },
        }));
      case "custom": {
        const named = isObject(data) && typeof data.name === "string";
        return [{ method: "custom", namespace, data: named ? data : { payload: data } }];
      }
      case "tasks":
        return [{ method: "tasks", namespace, data }];
      default:
        return [];
    }
  }

  function takeState({ values, tasks, checkpoint }: StateEvent): YieldedEvent[] {
    // LangGraph does not show the state before the input either.
    if (!checkpoint || checkpoint.source === "input") return [];
    const { ns: _ns, checkpoint_id, ...about } = checkpoint;
    const { messages: list } = isObject(values) ? values : {};
    const completed = blocks && Array.isArray(list) ? messages(blocks.finish(list)) : [];
    const requested = tasks
      .flatMap((task) => task.interrupts)
      .map(
        ({ id: interrupt_id, value }): YieldedEvent => ({
          method: "input.requested",
          namespace: [],
          data: { interrupt_id, payload: value, value },
        }),
      );
    return [
      ...completed,
      { method: "checkpoints", namespace: [], data: { id: checkpoint_id, ...about } },
      { method: "values", namespace: [], data: all || !stored ? values : null, checkpoint_id },
      ...requested,
    ];
  }

  return (event) => {
    if (event.type === "stream") return all ? takeStream(event) : [];
    return event.type === "state" ? takeState(event) : [];
  };
}
