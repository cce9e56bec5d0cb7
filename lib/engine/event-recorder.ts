/** Records the events of a run for the event protocol: its lifecycle, and what its executor does. */
import type { Environment } from "../environment.ts";
import { type ExecutorEvent, type GraphInfo, type Job, ResumeRefused } from "../executor/contract.ts";
import { isObject, type Json, type JsonObject } from "../json.ts";
import type {
  ClaimedRun,
  EventMethod,
  EventPage,
  Scope,
  Storage,
  TerminalStatus,
  ThreadEvent,
} from "../storage/mod.ts";
import { seqOf } from "../storage/mod.ts";
import { createEventDeriver, type YieldedEvent } from "./event-deriver.ts";

export interface EventRecorderOptions {
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
export interface RecordedEnd {
  readonly status: TerminalStatus;
  readonly error: JsonObject | null;
  /** The run stopped at interrupts or a breakpoint. */
  readonly waits: boolean;
  /** What the executor threw. */
  readonly failure: unknown;
}

export interface EventRecorder {
  /** Records that the run has started; after a crash, closes what earlier attempts have left open. */
  begin(): Promise<void>;
  /** Records what an event of the executor shows. */
  take(event: ExecutorEvent): void;
  /** Records the end of the run: the last event. */
  end(end: RecordedEnd): Promise<void>;
}

/** An event of the executor, or one of the recorder's own. */
type NewEvent = Omit<YieldedEvent, "method"> & Pick<ThreadEvent, "method">;

/** How many turns back the events of earlier attempts are read. */
const TURNS = 100;
const EARLIER: ReadonlySet<EventMethod> = new Set(["lifecycle", "input.requested"]);

const NOTHING: EventRecorder = { begin: async () => {}, take() {}, end: async () => {} };

export function createEventRecorder(options: EventRecorderOptions): EventRecorder {
  const { environment, graph, claimed, job } = options;
  const { run, thread } = claimed;
  if ((job.events ?? "none") === "none") return NOTHING;
  const all = job.events === "all";
  const deriver = graph.protocol_events ? null : createEventDeriver(all, job.durability !== "exit");
  // Namespaces of subgraphs and nodes that have started and not ended, with the names of their graphs.
  const open = new Map<string, { readonly namespace: readonly string[]; readonly graph_name: Json }>();
  const requested = new Set<Json>();
  let running = false;
  let read = false;

  function record({ method, namespace, data, node, checkpoint_id }: NewEvent, end = false): void {
    const name = method === "custom" && isObject(data) && typeof data.name === "string" ? data.name : undefined;
    const text = data === null && checkpoint_id !== undefined ? null : (JSON.stringify(data) ?? "null");
    const event = { method, namespace, timestamp: environment.now(), node, data: text, checkpoint_id, name };
    options.record(event, end);
  }

  const recordRoot = (method: EventMethod, data: Json, end = false): void =>
    record({ method, namespace: [], data }, end);

  function track(namespace: readonly string[], data: Json): void {
    if (namespace.length === 0 || !isObject(data)) return;
    const key = JSON.stringify(namespace);
    if (data.event === "started") open.set(key, { namespace, graph_name: data.graph_name ?? null });
    else open.delete(key);
  }

  function takeYielded(event: YieldedEvent): void {
    const { method, namespace, data } = event;
    if (method === "lifecycle") track(namespace, data);
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
    read = true;
    if (run.claims === 1) return;
    let after: number | null = Math.max(0, seqOf(run.turn - TURNS, 0));
    while (after !== null) {
      const query: { readonly after: number; readonly methods: typeof EARLIER } = { after, methods: EARLIER };
      const page: EventPage = await options.retry(() => storage.readEvents(scope, run.thread_id, query));
      for (const { run_id, method, namespace, data } of page.events) {
        if (run_id !== run.run_id) continue;
        const parsed = JSON.parse(data ?? "null") as Json;
        if (method === "lifecycle") track(namespace, parsed);
        else if (isObject(parsed)) requested.add(parsed.interrupt_id ?? null);
        running ||= namespace.length === 0;
      }
      after = page.more ? page.read_to : null;
    }
  }

  /** Inner ones first. */
  function closeOpen(data: JsonObject): void {
    for (const { namespace, graph_name } of [...open.values()].reverse()) {
      const named = graph_name === null ? data : { ...data, graph_name };
      record({ method: "lifecycle", namespace, data: named });
    }
    open.clear();
  }

  return {
    async begin() {
      await readEarlier();
      closeOpen({ event: "interrupted" });
      if (!running) recordRoot("lifecycle", { event: "running", graph_name: run.graph_id });
      const answered = job.resumed ? [] : answeredIds(job.command?.resume, thread.interrupts);
      if (answered.length > 0) recordRoot("input.answered", { interrupt_ids: answered });
    },
    take(event) {
      if (event.type === "event") takeYielded(event);
      else for (const derived of deriver?.take(event) ?? []) takeYielded(derived);
    },
    async end({ status, error, waits, failure }) {
      // The run was stopped before this attempt began.
      if (!read) await readEarlier();
      const event = error ? "failed" : status === "interrupted" || waits ? "interrupted" : "completed";
      closeOpen({ event });
      const message = typeof error?.message === "string" ? error.message : undefined;
      const data: JsonObject = {
        event,
        graph_name: run.graph_id,
        ...(message === undefined ? {} : { error: message }),
        ...(failure instanceof ResumeRefused ? refusal(failure) : {}),
      };
      recordRoot("lifecycle", data, true);
    },
  };
}

const refusal = ({ reason, interrupt_ids, pending_ids }: ResumeRefused): JsonObject => ({
  reason,
  interrupt_ids: [...interrupt_ids],
  pending_ids: [...pending_ids],
});

/** The ids of the pending interrupts that a resume answers. */
function answeredIds(resume: Json | undefined, interrupts: JsonObject): string[] {
  if (resume === undefined) return [];
  const pending = Object.values(interrupts)
    .flatMap((list) => (Array.isArray(list) ? list : []))
    .flatMap((interrupt) => (isObject(interrupt) && typeof interrupt.id === "string" ? [interrupt.id] : []));
  const named = isObject(resume) ? pending.filter((id) => Object.hasOwn(resume, id)) : [];
  return named.length > 0 ? named : pending.length === 1 ? pending : [];
}
