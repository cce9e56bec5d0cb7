/** Shows the time line of a run without a trace: queue, attempts, nodes, calls of models and tools, webhook. */
import type { VNode } from "preact";
import { client, serverNow } from "../../api/client.ts";
import type { RunDetail, StepRecord } from "../../api/types.ts";
import { formatDuration, formatTime, Ready } from "../../parts/components.tsx";
import { useResource } from "../../store/resource.ts";
import { type Axis, createAxis, splitIntoSegments } from "./axis.ts";
import { type Bar, createRunBars, type Step } from "./bars.ts";
import { useRunEvents } from "./run-events.ts";

/** Shows a bar with its label and duration; a very short one stays visible. */
function BarLine({ bar, axis }: { readonly bar: Bar; readonly axis: Axis }): VNode {
  const text = bar.isPoint ? "" : formatDuration(bar.to - bar.from);
  const content = (
    <>
      <span class="line-label" title={bar.label}>
        {bar.failed ? "✕ " : ""}
        {bar.label}
      </span>
      <span class="track" title={`${formatTime(bar.from)} – ${formatTime(bar.to)}`}>
        <span
          class={`bar kind-${bar.kind} ${bar.failed ? "failed" : ""} ${bar.isPoint ? "point" : ""}`}
          style={{
            left: `min(${axis.toLeft(bar.from)}, 100% - 3px)`,
            width: bar.isPoint ? "" : axis.toWidth(bar),
          }}
        />
      </span>
      <span class="line-time">{text}</span>
    </>
  );
  return <li>{bar.href ? <a href={bar.href}>{content}</a> : <span>{content}</span>}</li>;
}

const FIELDS = ["checkpoint", "parent_checkpoint", "created_at", "metadata", "next", "tasks"] as never;

/**
 * Reads the newest 200 checkpoints of a run, newest first. Unless the oldest of them is an input or has no parent, its parent
 * follows, with the start of the run as its time, or its own time before the run has started. Rejects if a read fails.
 */
async function readSteps({ thread_id, run_id, started_at }: RunDetail): Promise<readonly Step[]> {
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
  /** The steps of a durable function. */
  readonly durable: readonly StepRecord[];
}

/**
 * Shows the time line of a run without a trace as a list of bars, with notes below it if waits are shortened or times of nodes are unknown.
 * Webhooks do not count for its scale. Checkpoints of a temporary run are not read.
 */
export function CheckpointTimeLine({ run, durable }: TimeLineProps): VNode {
  const steps = useResource<readonly Step[]>(run.temporary ? null : `run-steps/${run.run_id}/${run.status}`, () =>
    readSteps(run),
  );
  const events = useRunEvents(run);
  const loadedSteps = run.temporary ? { data: [], error: undefined } : steps;
  return (
    <Ready of={loadedSteps} rows={4}>
      {(loaded) => {
        const { bars, hasNodeTimes } = createRunBars(run, { steps: loaded, events, durable, now: serverNow() });
        // A webhook that is tried for a day would press everything else flat.
        const inside = bars.filter(({ kind }) => kind !== "webhook");
        const from = Math.min(...inside.map((bar) => bar.from));
        const to = Math.max(...inside.map((bar) => bar.to));
        const active = inside.filter(({ kind }) => kind !== "queue");
        const axis = createAxis(splitIntoSegments(active, { from, to }));
        const notes = [
          axis.gaps.length > 0 ? "Waits are not to scale." : "",
          hasNodeTimes ? "" : "Without events, a step shows the time of all its nodes together.",
        ].filter(Boolean);
        return (
          <>
            <ol class="time-line" aria-label="Time line">
              {bars.map((bar, index) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: bars have no names and stay in order
                <BarLine key={index} bar={bar} axis={axis} />
              ))}
            </ol>
            {notes.length > 0 ? <p class="faint">{notes.join(" ")}</p> : null}
          </>
        );
      }}
    </Ready>
  );
}
