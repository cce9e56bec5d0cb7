/** Stores how an attempt ended: the end of the run, or its return to the queue at shutdown. */
import type { StateEvent } from "../executor/contract.ts";
import { type Json, type JsonObject, scalarsOf } from "../json.ts";
import type { FinishOutcome, FinishRun, TerminalStatus } from "../storage/mod.ts";
import { closeRunEvents, errorBody, type Tail, tailLength, waitResult, webhookValues } from "../streams/terminal.ts";
import type { AttemptContext } from "./attempt-context.ts";
import { lastState, reachedCheckpoint, stateBefore } from "./reached-state.ts";

/** Shutdown: another process, or this one later, retries the run. Its log stays open, so that subscribers reconnect. */
export async function requeueRun(context: AttemptContext): Promise<void> {
  const { options, claimed, state, progress, retry } = context;
  const { storage, scope, environment } = options;
  await progress.save();
  if (context.isLost()) return;
  state.phase = "ending";
  if (!(await retry(() => storage.requeueRun(scope, claimed.lease, environment.now())))) context.stop("lease_lost");
}

/** How the run ends. */
interface AttemptResult {
  readonly status: TerminalStatus;
  readonly error: JsonObject | null;
  /** The last state; null if the run reached none. */
  readonly last: StateEvent | null;
  /** The run was cancelled, and has a state of its own. */
  readonly stoppedMidway: boolean;
}

async function resultOf(context: AttemptContext, failure: unknown): Promise<AttemptResult> {
  const { state, graph, options, mapper } = context;
  if (state.reason === "cancelled") {
    const own = await lastState(context);
    const last = own ?? (await stateBefore(context));
    return { status: "interrupted", error: null, last, stoppedMidway: own !== null };
  }
  const last = mapper.last();
  if (state.reason === "timed_out") {
    const message = `The run took longer than ${graph.timeout_ms ?? options.run_timeout_ms} ms`;
    return { status: "timeout", error: { error: "RunTimeout", message }, last, stoppedMidway: false };
  }
  const error = errorBody(failure, last);
  return { status: error ? "error" : "success", error, last, stoppedMidway: false };
}

const MOST_STACK = 16_000;

/** `failure`: what the executor threw; undefined if it returned. */
export async function finishRun(context: AttemptContext, failure: unknown): Promise<void> {
  const { options, slot, claimed, state, progress, mapper, runEvents } = context;
  const { environment, bus, scope } = options;
  const { run, resumed } = claimed;
  const { run_id, thread_id, graph_id, attempt, temporary } = run;
  state.phase = "ending";
  const { status, error, last, stoppedMidway } = await resultOf(context, failure);
  const next = last?.next ?? [];
  const interrupts: [string, Json][] = (last?.tasks ?? [])
    .filter((task) => task.interrupts.length > 0)
    .map((task) => [task.id, task.interrupts as unknown as Json]);
  const open = interrupts.flatMap(([, list]) => list as Json[]);
  const result: Json = error ? { __error__: error } : waitResult(last?.values ?? {}, next, open, stoppedMidway);
  const head = (error ? null : last?.checkpoint?.checkpoint_id) ?? (await reachedCheckpoint(context));
  const discard = temporary && (progress.hasSaved() || resumed);
  await context.recorder.end({ status, error, waits: next.length > 0, failure });
  const { progress: unsaved, shown } = progress.rest();
  const tail: Tail = { feedback: options.feedbackUrls(run), error };
  const usage = mapper.usage();
  const end: FinishRun = {
    claims: run.claims,
    status,
    error,
    ...(error && failure instanceof Error && failure.stack ? { stack: failure.stack.slice(0, MOST_STACK) } : {}),
    result: temporary ? result : null,
    progress: temporary ? { ...unsaved, checkpoints: [], writes: [] } : unsaved,
    discard,
    thread: {
      head,
      status: error ? "error" : next.length > 0 ? "interrupted" : "idle",
      interrupts: Object.fromEntries(interrupts),
      error,
      ...(head === null || temporary
        ? {}
        : { scalars: last?.checkpoint?.checkpoint_id === head ? scalarsOf(last.values) : null }),
    },
    end_frame: progress.nextId() + tailLength(tail),
    has_side_effects: run.feedback.length > 0 || run.webhook !== null,
    ...(run.webhook && !temporary ? { values: webhookValues(last?.values) } : {}),
    ...(usage ? { usage } : {}),
    ...(run.cron_id === undefined ? {} : { cron_id: run.cron_id }),
    waiting: slot.hasWaitingRuns(),
    // The same time in every try: it identifies a try that took effect without an answer.
    now: environment.now(),
  };
  if (!(await storeEnd(context, end))) {
    context.stop("lease_lost");
    return;
  }
  slot.counters.ended[status]++;
  if (error) {
    const cause = status === "timeout" ? error["message"] : (failure ?? error["message"]);
    environment.log({ level: "error", message: "a run failed", run_id, thread_id, graph_id, attempt, error: cause });
  }
  shown();
  closeRunEvents(runEvents, run_id, { status, result }, tail, end.end_frame);
  if (run.webhook) bus.publish("deliveries", scope.deployment, "here");
  options.onFinished?.(run, { status, ended_at: end.now, error });
}

/** Stores the end, with a claim for the next run in this slot. False: another process has the run. */
async function storeEnd({ options, slot, claimed, retry }: AttemptContext, end: FinishRun): Promise<boolean> {
  const { storage, scope } = options;
  let tries = 0;
  const finished = await retry(async () => {
    tries++;
    const claim = slot.nextClaim();
    let outcome: FinishOutcome | undefined;
    try {
      outcome = await storage.finishRun(scope, claimed.lease, claim ? { ...end, next: claim.request } : end);
    } finally {
      claim?.answered(outcome);
    }
    return outcome;
  });
  if (finished || tries === 1) return finished !== null;
  // An earlier try may have taken effect although the store reported a failure.
  const row = await retry(() => storage.getRun(scope, claimed.run.run_id));
  const { claims, status, end_frame, now } = end;
  return row?.claims === claims && row.status === status && row.end_frame === end_frame && row.ended_at === now;
}
