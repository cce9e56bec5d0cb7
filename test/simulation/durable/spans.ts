/** What the traces of durable functions must be when all calls have ended. */
import type { RunTrace } from "../../../lib/traces/run-trace.ts";
import type { ClientThread } from "./client.ts";
import type { World } from "./world.ts";

const OPERATIONS: ReadonlySet<string> = new Set(["step", "sleep", "wait", "ask"]);

/** Checks that each run has a whole trace, and that the step of a call is one span, however often it was executed or replayed. */
export async function checkSpans(world: World, { thread_id, script }: ClientThread): Promise<void> {
  const service = world.up();
  if (!service) return;
  const settled = new Map<string, number>();
  for (const { run_id } of await service.runs.list(thread_id, { limit: 100 })) {
    const trace = await service.traces.get(thread_id, run_id);
    checkTrace(world, script.tag, trace);
    for (const { kind, name, status } of trace.spans)
      if (OPERATIONS.has(kind) && status === "ok")
        settled.set(`${kind} ${name}`, (settled.get(`${kind} ${name}`) ?? 0) + 1);
  }
  for (const op of script.chains.flat()) {
    if (op.kind === "yield") continue;
    const count = settled.get(`${op.kind} ${op.name}`) ?? 0;
    world.counts[`span: ${op.kind}`] = (world.counts[`span: ${op.kind}`] ?? 0) + count;
    const mayTimeOut = op.kind === "wait" && op.timeout !== null;
    if (count > 1 || (count < 1 && !mayTimeOut))
      world.violation("spans", `${op.kind} ${op.name} has ${count} spans that ended`);
  }
}

/** Checks a trace: nothing is open, each operation is there once, and attempts follow one another without an overlap. */
function checkTrace(world: World, tag: string, { run_id, status, spans, segments }: RunTrace): void {
  const refuse = (text: string): void => world.violation("spans", `run ${run_id} of ${tag}: ${text}`);
  if (status === "pending" || status === "running") refuse(`it is ${status}`);
  if (spans.filter(({ kind }) => kind === "run").length !== 1) refuse("it has no span of the run, or several");
  const names = new Set<string>();
  for (const { kind, name, status } of spans) {
    if (status === "open") refuse(`${kind} ${name} is open`);
    if (OPERATIONS.has(kind) && names.has(`${kind} ${name}`)) refuse(`${kind} ${name} is in it twice`);
    names.add(`${kind} ${name}`);
  }
  const attempts = spans.filter(({ kind }) => kind === "attempt");
  if (attempts.length === 0) refuse("it has no attempt");
  for (const [index, { claim = 0, start_ms }] of attempts.entries()) {
    const before = attempts[index - 1];
    if (before && (before.claim ?? 0) >= claim) refuse(`claim ${claim} follows ${before.claim}`);
    // The times of a lost attempt are whole milliseconds.
    if (before && before.start_ms + (before.duration_ms ?? 0) > start_ms + 1)
      refuse(`claim ${claim} overlaps the one before`);
  }
  let end_ms = 0;
  for (const { kind, start_ms, duration_ms } of segments) {
    if (Math.abs(start_ms - end_ms) > 0.01) refuse(`the ${kind} segment starts at ${start_ms}, after ${end_ms}`);
    end_ms = start_ms + duration_ms;
  }
}
