/** Shows the time line of a run: its trace, else what its checkpoints and events tell. */
import type { VNode } from "preact";
import { formatError, isForbidden, isMissing } from "../../api/failure.ts";
import type { RunDetail, RunTrace, StepRecord } from "../../api/types.ts";
import { Skeleton } from "../../parts/components.tsx";
import { CheckpointTimeLine } from "./checkpoint-time-line.tsx";
import { useTrace } from "./trace-source.ts";
import { TraceTree } from "./trace-tree.tsx";

/** Returns true if the spans of an ended run were not kept, because only those of failed or slow runs are. */
const lacksSpans = ({ ended_at, sampled, spans }: RunTrace): boolean =>
  ended_at !== undefined && !sampled && spans.every(({ kind }) => kind !== "attempt");

/** Returns why there is no trace; null for a caller who may not read it. */
function explainMissingTrace(error: unknown): string | null {
  if (isForbidden(error)) return null;
  return isMissing(error)
    ? "This run has no trace: none was recorded, or it was deleted or has expired."
    : `The trace cannot be read: ${formatError(error)}.`;
}

interface TimeLineProps {
  readonly run: RunDetail;
  /** The steps of a durable function. */
  readonly durable: readonly StepRecord[];
}

/** Shows the trace of a run. Without one, says why, and shows a time line from checkpoints and events. */
export function TimeLine({ run, durable }: TimeLineProps): VNode {
  const { data, error } = useTrace(run);
  if (data && !lacksSpans(data.trace)) return <TraceTree read={data} />;
  if (!data && !error) return <Skeleton rows={4} />;
  const reason = data
    ? "The spans of this run were not kept: only those of failed and slow runs are."
    : explainMissingTrace(error);
  return (
    <>
      {reason ? <p class="faint">{reason} Its times are taken from checkpoints and events.</p> : null}
      <CheckpointTimeLine run={run} durable={durable} />
    </>
  );
}
