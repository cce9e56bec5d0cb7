/** One run as a time line: queue, execution, steps, calls of models and tools, webhook. */
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { client, serverNow } from "../../api/client.ts";
import { TURN, threadEvents } from "../../api/events.ts";
import type { RunDetail, StepRecord } from "../../api/types.ts";
import { hrefOf } from "../../frame/router.ts";
import { duration, exact, Ready } from "../../parts/basics.tsx";
import { useResource } from "../../store/resource.ts";
import { messagesOf } from "../chat/messages.ts";
import type { FullState } from "../state/state.tsx";

interface Bar {
  readonly kind: "queue" | "run" | "step" | "model" | "call" | "webhook";
  readonly label: string;
  readonly from: number;
  readonly to: number;
  readonly failed?: boolean;
  readonly href?: string;
  /** Something happened at one moment. */
  readonly isPoint?: boolean;
}

type Step = Pick<FullState, "tasks" | "created_at" | "checkpoint" | "parent_checkpoint" | "next" | "metadata">;

const toolsOf = (result: unknown): readonly string[] =>
  messagesOf(result)?.flatMap(({ tool_calls = [] }) => tool_calls.map(({ name }) => name)) ?? [];

interface CallData {
  readonly event: string;
  /** Of the call of a model. */
  readonly run_id?: string;
  readonly metadata?: { readonly model?: string };
  readonly tool_call_id?: string;
  readonly tool_name?: string;
}

/** Calls of models and tools by the events of a run: those that have ended, whenever there is one more. */
async function readCalls({ thread_id, turn }: RunDetail, signal: AbortSignal, show: (calls: Bar[]) => void) {
  const open = new Map<string, Omit<Bar, "to">>();
  const calls: Bar[] = [];
  const filter = { channels: ["lifecycle", "messages", "tools"], since: turn * TURN - 1 };
  for await (const { seq, method, params } of threadEvents(thread_id, filter, signal)) {
    const { namespace, timestamp: at, data } = params;
    const { event, run_id, metadata, tool_call_id, tool_name } = data as CallData;
    const key = tool_call_id ?? run_id ?? namespace.join("|");
    const call = open.get(key);
    if (event === "message-start") open.set(key, { kind: "model", label: metadata?.model ?? "model call", from: at });
    else if (event === "tool-started") open.set(key, { kind: "call", label: tool_name ?? "tool", from: at });
    else if (call && /^(?:message-finish|tool-(?:finished|error))$/.test(event)) {
      open.delete(key);
      calls.push({ ...call, to: at, failed: event === "tool-error" });
      show([...calls]);
    }
    const isEnd = method === "lifecycle" && namespace.length === 0 && event !== "running";
    if (isEnd || seq >= (turn + 1) * TURN) return;
  }
}

/** Events are recorded of runs that were followed by them, such as those of the chat; others have none. */
function useCalls(run: RunDetail): readonly Bar[] {
  const [calls, setCalls] = useState<readonly Bar[]>([]);
  useEffect(() => {
    if (run.temporary || run.started_at === null) return;
    const abort = new AbortController();
    // Without the events, the steps say which tools were called.
    readCalls(run, abort.signal, setCalls).catch(() => {});
    return () => abort.abort();
  }, [run.run_id, run.started_at === null]);
  return calls;
}

/** A step lies between two checkpoints: the tasks of the earlier one ran until the later one was stored. */
/** What a durable function did and waited for, as far as this run saw it. */
function stepBars({ created_at }: RunDetail, steps: readonly StepRecord[], now: number): Bar[] {
  const created = Date.parse(created_at);
  return steps.flatMap(({ kind, name, status, started_at, ended_at }) => {
    const to = ended_at ? Date.parse(ended_at) : now;
    if (!started_at || to < created) return [];
    const from = Math.max(created, Date.parse(started_at));
    const failed = status === "failed" || status === "timed_out";
    return [{ kind: kind === "step" ? "step" : "queue", label: `${kind} ${name}`, from, to, failed }];
  });
}

function barsOf(run: RunDetail, steps: readonly Step[], calls: readonly Bar[], now: number): Bar[] {
  const created = Date.parse(run.created_at);
  const started = run.started_at ? Date.parse(run.started_at) : null;
  const end = run.ended_at ? Date.parse(run.ended_at) : now;
  const bars: Bar[] = [{ kind: "queue", label: "queue", from: created, to: started ?? now }];
  const hasFailed = run.status === "error" || run.status === "timeout";
  for (const [index, { at, until, worker }] of run.attempts.entries()) {
    const to = Math.min(Date.parse(until), end);
    const failed = hasFailed && index === run.attempts.length - 1;
    bars.push({ kind: "run", label: `execution by ${worker}`, from: Date.parse(at), to, failed });
  }
  const inside: Bar[] = [...calls];
  const sorted = [...steps].sort((a, b) => a.created_at.localeCompare(b.created_at));
  for (const [index, step] of sorted.entries()) {
    const from = Date.parse(step.created_at);
    const next = sorted
      .slice(index + 1)
      .find((one) => one.parent_checkpoint?.checkpoint_id === step.checkpoint.checkpoint_id);
    const to = next ? Date.parse(next.created_at) : end;
    const href = hrefOf(["threads", run.thread_id], {
      tab: "state",
      checkpoint: (next ?? step).checkpoint.checkpoint_id,
    });
    for (const task of step.tasks) {
      if (task.name === "__start__") continue;
      const waits = task.interrupts.length > 0 ? " ◐" : "";
      inside.push({ kind: "step", label: `${task.name}${waits}`, from, to, failed: task.error != null, href });
      if (calls.length > 0) continue;
      for (const name of toolsOf(task.result)) {
        inside.push({ kind: "call", label: `calls ${name}`, from: to, to, isPoint: true, href });
      }
    }
  }
  bars.push(...inside.sort((a, b) => a.from - b.from || b.to - a.to));
  for (const attempt of run.delivery?.attempt_list ?? []) {
    const from = Date.parse(attempt.at);
    const label = `webhook ${attempt.number}: ${attempt.status ?? attempt.error ?? ""}`;
    const failed = !(attempt.status !== null && attempt.status < 300);
    bars.push({ kind: "webhook", label, from, to: from + attempt.duration_ms, failed });
  }
  return bars;
}

function Line({ bar, from, span }: { readonly bar: Bar; readonly from: number; readonly span: number }): VNode {
  const left = ((bar.from - from) / span) * 100;
  const width = ((bar.to - bar.from) / span) * 100;
  const text = bar.isPoint ? "" : duration(bar.to - bar.from);
  const content = (
    <>
      <span class="line-label" title={bar.label}>
        {bar.failed ? "✕ " : ""}
        {bar.label}
      </span>
      <span class="track" title={`${exact(bar.from)} – ${exact(bar.to)}`}>
        <span
          class={`bar ${bar.kind} ${bar.failed ? "failed" : ""} ${bar.isPoint ? "point" : ""}`}
          style={{
            left: `${Math.min(99.5, Math.max(0, left))}%`,
            width: bar.isPoint ? "" : `${Math.max(0.4, width)}%`,
          }}
        />
      </span>
      <span class="line-time">{text}</span>
    </>
  );
  return <li>{bar.href ? <a href={bar.href}>{content}</a> : <span>{content}</span>}</li>;
}

const FIELDS = ["checkpoint", "parent_checkpoint", "created_at", "metadata", "next", "tasks"] as never;

/** The checkpoints of a run, and the one before its first: a run that goes on executes what waited there. */
async function stepsOf({ thread_id, run_id, started_at }: RunDetail): Promise<readonly Step[]> {
  const steps = (await client.threads.getHistory(thread_id, {
    limit: 200,
    metadata: { run_id },
    select: FIELDS,
  })) as unknown as readonly Step[];
  const first = steps.at(-1);
  const parent = first?.parent_checkpoint?.checkpoint_id;
  if (!first || !parent || first.metadata["source"] === "input") return steps;
  const before = (await client.threads.getState(thread_id, parent, { select: FIELDS })) as unknown as Step;
  return [...steps, { ...before, created_at: started_at ?? before.created_at }];
}

interface TimeLineProps {
  readonly run: RunDetail;
  /** Of a durable function. */
  readonly durable: readonly StepRecord[];
}

export function TimeLine({ run, durable }: TimeLineProps): VNode {
  const steps = useResource<readonly Step[]>(run.temporary ? null : `run-steps/${run.run_id}/${run.status}`, () =>
    stepsOf(run),
  );
  const calls = useCalls(run);
  const shown = run.temporary ? { data: [], error: undefined } : steps;
  return (
    <Ready of={shown} rows={4}>
      {(loaded) => {
        const bars = barsOf(run, loaded, [...calls, ...stepBars(run, durable, serverNow())], serverNow());
        const from = Math.min(...bars.map((bar) => bar.from));
        // A webhook that is tried for a day would press everything else flat.
        const ends = bars.filter(({ kind }) => kind !== "webhook").map((bar) => bar.to);
        const span = Math.max(1, Math.max(...ends) - from);
        return (
          <ol class="time-line" aria-label="Time line">
            {bars.map((bar, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: bars have no names and stay in order
              <Line key={index} bar={bar} from={from} span={span} />
            ))}
          </ol>
        );
      }}
    </Ready>
  );
}
