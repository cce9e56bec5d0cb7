/** The bars of a run's time line: queue, execution, nodes, steps of durable functions, calls of models and tools, webhook. */
import type { RunDetail, StepRecord } from "../../api/types.ts";
import { toHref } from "../../frame/router.ts";
import { findMessages } from "../chat/messages.ts";
import type { FullState } from "../state/state.tsx";

export interface Bar {
  readonly kind: "queue" | "run" | "step" | "model" | "tool" | "webhook";
  readonly label: string;
  readonly from: number;
  readonly to: number;
  readonly failed?: boolean;
  readonly href?: string;
  /** True for a moment without a duration. */
  readonly isPoint?: boolean;
  /** The task, for the bar of a node. */
  readonly task_id?: string;
}

/** A checkpoint and the tasks that ran from it on. */
export type Step = Pick<FullState, "tasks" | "created_at" | "checkpoint" | "parent_checkpoint" | "next" | "metadata">;

const findToolNames = (result: unknown): readonly string[] =>
  findMessages(result)?.flatMap(({ tool_calls = [] }) => tool_calls.map(({ name }) => name)) ?? [];

/**
 * Returns the bars of the steps and waits of a durable function, cut to the time of this run and without those outside
 * of it. Waits, and steps that were tried again, have kind `queue`.
 */
function createDurableBars(steps: readonly StepRecord[], { from: created, to: end }: Pick<Bar, "from" | "to">): Bar[] {
  return steps.flatMap(({ kind, name, status, attempts, started_at, ended_at }) => {
    const from = started_at ? Math.max(created, Date.parse(started_at)) : end;
    const to = ended_at ? Math.min(end, Date.parse(ended_at)) : end;
    if (from > to || (from === end && to === end)) return [];
    const failed = status === "failed" || status === "timed_out";
    // Between its tries a step waits.
    const isActive = kind === "step" && attempts <= 1 && status !== "retrying";
    return [{ kind: isActive ? "step" : "queue", label: `${kind} ${name}`, from, to, failed }];
  });
}

/**
 * Returns a bar for each attempt of a run, cut at the end of the run. The bar of a suspended one ends with the last start of an
 * operation or end of a step in it. Only the last bar can be failed: if the run ended with `error` or `timeout`.
 */
function createAttemptBars(run: RunDetail, durable: readonly StepRecord[], end: number): Bar[] {
  const times = durable.flatMap(({ kind, started_at, ended_at }) =>
    [kind === "step" ? ended_at : null, started_at].flatMap((time) => (time ? Date.parse(time) : [])),
  );
  const hasFailed = run.status === "error" || run.status === "timeout";
  return run.attempts.map(({ at, until, worker }, index) => {
    const isLast = index === run.attempts.length - 1;
    const from = Date.parse(at);
    const claimed = Math.min(Date.parse(until), end);
    const isSuspended = durable.length > 0 && (!isLast || run.status === "pending");
    const to = isSuspended ? Math.max(from, ...times.filter((time) => time >= from && time < claimed)) : claimed;
    return { kind: "run", label: `execution by ${worker}`, from, to, failed: hasFailed && isLast };
  });
}

interface StepBars {
  readonly bars: readonly Bar[];
  /** The addresses of the results by task id. */
  readonly hrefs: ReadonlyMap<string, string>;
}

/**
 * Returns a bar for each checkpoint that has tasks, and a point for each tool that they called, with links to the
 * checkpoint after it; also these links by task id. A step lasts from its checkpoint until the next one was stored,
 * else until `end`.
 */
function createStepBars(run: RunDetail, steps: readonly Step[], end: number): StepBars {
  const bars: Bar[] = [];
  const hrefs = new Map<string, string>();
  const sorted = [...steps].sort((a, b) => a.created_at.localeCompare(b.created_at));
  for (const [index, { created_at, checkpoint, tasks: all }] of sorted.entries()) {
    const tasks = all.filter(({ name }) => name !== "__start__");
    if (tasks.length === 0) continue;
    const isNext = (step: Step): boolean => step.parent_checkpoint?.checkpoint_id === checkpoint.checkpoint_id;
    const next = sorted.slice(index + 1).find(isNext);
    const to = next ? Date.parse(next.created_at) : end;
    const { checkpoint_id } = next?.checkpoint ?? checkpoint;
    const href = toHref(["threads", run.thread_id], { tab: "state", checkpoint: checkpoint_id });
    for (const { id } of tasks) hrefs.set(id, href);
    // Nothing says how long each node of a step took.
    const label = tasks.map(({ name, interrupts }) => `${name}${interrupts.length > 0 ? " ◐" : ""}`).join(", ");
    const failed = tasks.some(({ error }) => error != null);
    bars.push({ kind: "step", label, from: Date.parse(created_at), to, failed, href });
    for (const name of tasks.flatMap(({ result }) => findToolNames(result)))
      bars.push({ kind: "tool", label: `calls ${name}`, from: to, to, isPoint: true, href });
  }
  return { bars, hrefs };
}

/** Returns a bar for each attempt of the webhook; none without one. */
function createWebhookBars({ delivery }: RunDetail): Bar[] {
  return (delivery?.attempt_list ?? []).map(({ at, number, status, error, duration_ms }) => {
    const from = Date.parse(at);
    const failed = !(status !== null && status < 300);
    return {
      kind: "webhook",
      label: `webhook ${number}: ${status ?? error ?? ""}`,
      from,
      to: from + duration_ms,
      failed,
    };
  });
}

export interface RunBars {
  readonly bars: readonly Bar[];
  /** False if the run has no events: each node then has the time of its step. */
  readonly hasNodeTimes: boolean;
}

interface BarSources {
  readonly steps: readonly Step[];
  /** The bars from the events of the run. */
  readonly events: readonly Bar[];
  readonly durable: readonly StepRecord[];
  readonly now: number;
}

/**
 * Returns the bars of a run: the queue and the attempts, then steps, nodes and calls by their start, then webhooks. Bars of
 * checkpoints are used only if neither events nor a durable function have any of nodes. Times that are open end now.
 * `hasNodeTimes` is false only if bars of checkpoints stand for those of nodes.
 */
export function createRunBars(run: RunDetail, { steps, events, durable, now }: BarSources): RunBars {
  const from = Date.parse(run.created_at);
  const started = run.started_at ? Date.parse(run.started_at) : now;
  const end = run.ended_at ? Date.parse(run.ended_at) : now;
  const byCheckpoint = createStepBars(run, steps, end);
  const isNode = ({ task_id }: Bar): boolean => task_id !== undefined;
  const hasNodeTimes = events.some(isNode);
  /** Returns a copy of the bar with the link of its task; the bar itself without such a link. */
  const withHref = (bar: Bar): Bar => {
    const href = byCheckpoint.hrefs.get(bar.task_id ?? "");
    return href ? { ...bar, href } : bar;
  };
  const inside = [
    // The steps of a durable function say more than its nodes.
    ...(durable.length > 0 ? events.filter((bar) => !isNode(bar)) : events).map(withHref),
    ...createDurableBars(durable, { from, to: end }),
    ...(hasNodeTimes || durable.length > 0
      ? []
      : byCheckpoint.bars.filter((bar) => !bar.isPoint || events.length === 0)),
  ];
  const bars: readonly Bar[] = [
    { kind: "queue", label: "queue", from, to: Math.min(started, end) },
    ...createAttemptBars(run, durable, end),
    ...inside.sort((a, b) => a.from - b.from || b.to - a.to),
    ...createWebhookBars(run),
  ];
  return { bars, hasNodeTimes: hasNodeTimes || durable.length > 0 || byCheckpoint.bars.length === 0 };
}
