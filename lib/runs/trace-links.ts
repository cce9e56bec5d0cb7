/** The links of a run's trace to the runs whose state it starts from. Loaded for runs that fork or resume. */
import type { JsonObject } from "../json.ts";
import type { NewRun, SpanLink, StoredCheckpoint, ThreadRow } from "../storage/mod.ts";

/** The state that a run starts from. */
interface StartState {
  readonly thread: ThreadRow | null;
  /** The checkpoint that the request names; null for the newest. */
  readonly checkpoint: StoredCheckpoint | null;
  /** The run that waits for the resume value, if it is known. The metadata of a checkpoint may have another value. */
  readonly resumed_run_id: unknown;
}

/**
 * Returns the fields of a new run with links of its trace to the run that has written an earlier checkpoint, and to the run that it
 * resumes; the same fields without any, and if no trace is recorded.
 */
export function addTraceLinks(
  fields: Partial<NewRun>,
  { thread, checkpoint, resumed_run_id }: StartState,
): Partial<NewRun> {
  const { trace_origin } = fields;
  const links: readonly SpanLink[] = [
    ...createForkLinks(checkpoint, thread),
    ...(typeof resumed_run_id !== "string" ? [] : [{ kind: "resumes", run_id: resumed_run_id } as const]),
  ];
  if (!trace_origin || links.length === 0) return fields;
  return { ...fields, trace_origin: { ...trace_origin, links: [...(trace_origin.links ?? []), ...links] } };
}

/** Returns a link to the run that has written a checkpoint, if that belongs to a state before the head of its thread. */
function createForkLinks(checkpoint: StoredCheckpoint | null, thread: ThreadRow | null): readonly SpanLink[] {
  if (!checkpoint || checkpoint.run_id === null) return [];
  const { ns, checkpoint_id, metadata, run_id } = checkpoint;
  const { parents } = metadata as { readonly parents?: JsonObject };
  const root_id = ns === "" ? checkpoint_id : parents?.[""];
  return root_id === thread?.head ? [] : [{ kind: "forks", run_id }];
}
