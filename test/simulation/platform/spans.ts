/** What must be left of spans when everything has ended. */
import type { Span } from "../../../lib/storage/spans.ts";
import type { RunTrace } from "../../../lib/traces/run-trace.ts";
import type { SqlRow } from "../database.ts";
import { isActiveStatus, type RunNote } from "../oracle/notes.ts";
import { describeEnd, isSameEnd } from "../oracle/spans.ts";
import type { World } from "../world.ts";

/** Checks I16: each run that was claimed and has ended has one trace, with every span that was stored, and no other run has one. */
export function checkStoredSpans(world: World): void {
  const { database, oracle } = world;
  const traces = new Map(database.query("select * from run_traces").map((row) => [String(row.run_id), row]));
  const parts = new Map<string, string[]>();
  for (const { run_id, spans } of database.query("select * from run_trace_parts order by run_id, part"))
    parts.set(String(run_id), [...(parts.get(String(run_id)) ?? []), String(spans)]);
  const contents = database.query("select distinct run_id from run_trace_contents").map((row) => String(row.run_id));
  for (const run_id of new Set([...parts.keys(), ...contents]))
    if (!traces.has(run_id)) world.violation("I16", `parts or contents of ${run_id} have no trace`);
  for (const run of oracle.runs.byId.values()) {
    const row = traces.get(run.run_id);
    traces.delete(run.run_id);
    const isExpected = (run.fate === "present" || run.fate === "swept") && run.claims.length > 0;
    if (isExpected !== (row !== undefined)) {
      const what = `${run.fate}, ${run.state.status}, claimed ${run.claims.length} times`;
      world.violation("I16", `${run.tag} is ${what}, and ${row ? "has a" : "has no"} trace`);
    }
    if (row) checkStoredTrace(world, run, row, parts.get(run.run_id) ?? []);
  }
  for (const run_id of traces.keys()) world.violation("I16", `trace ${run_id} is of no run`);
}

/** Checks the stored trace of one run: it says how the run ended, and has what was stored of it at any time. */
function checkStoredTrace(world: World, run: RunNote, row: SqlRow, parts: readonly string[]): void {
  const refuse = (text: string): void => world.violation("I16", `the trace of ${run.tag}: ${text}`);
  const { status, ended_at } = run.state;
  if (row.status !== status || row.ended_at !== ended_at)
    refuse(`it says ${row.status} at ${row.ended_at}, the run ended as ${status} at ${ended_at}`);
  const spans = new Map<string, Span>();
  for (const json of [...parts, String(row.spans)])
    for (const span of JSON.parse(json) as readonly Span[]) spans.set(span.span_id, span);
  for (const [span_id, span] of world.oracle.spans.stored.get(run.run_id) ?? []) {
    const left = spans.get(span_id);
    if (!left) refuse(`${span.kind} ${span_id} was stored, and is gone`);
    else if (span.status !== "open" && !isSameEnd(left, span))
      refuse(`${span.kind} ${span_id} was stored as ${describeEnd(span)}, and is ${describeEnd(left)}`);
  }
  const attempts = new Map(
    [...spans.values()].filter(({ kind }) => kind === "attempt").map((span) => [span.claim, span]),
  );
  for (const [index, { executed, returned }] of run.claims.entries())
    if (executed && returned && world.plan.traces.record === "all" && !attempts.has(index + 1))
      refuse(`the attempt of claim ${index + 1} was put back, and is missing`);
  const attempt = attempts.get(run.state.claims);
  if (!attempt) {
    if (world.plan.traces.record === "all") refuse("its last attempt is missing");
    return;
  }
  for (const { kind, span_id, claim, status } of spans.values())
    if (status === "open" && claim === run.state.claims) refuse(`${kind} ${span_id} is open`);
  if (status !== "success") return;
  for (const span_id of world.oracle.spans.ended.get(attempt.span_id) ?? [])
    if (!spans.has(span_id)) refuse(`span ${span_id} of its last attempt ended, and was not stored`);
}

/** Checks I16 for a trace as clients read it: nothing is open, attempts are in their order, and the totals are the sums of the spans. */
export function checkRunTrace(world: World, run: RunNote, trace: RunTrace): void {
  const refuse = (text: string): void => world.violation("I16", `the trace of ${run.tag} as read: ${text}`);
  const { spans, totals, dropped } = trace;
  if (isActiveStatus(trace.status) || trace.status !== run.state.status) refuse(`it is ${trace.status}`);
  const runs = spans.filter(({ kind }) => kind === "run");
  if (runs.length !== 1) refuse(`it has ${runs.length} spans of the run`);
  const open = spans.filter(({ status }) => status === "open");
  if (open.length > 0) refuse(`${open.map(({ kind, span_id }) => `${kind} ${span_id}`).join()} is open`);
  const ids = new Set(spans.map(({ span_id }) => span_id));
  if (ids.size !== spans.length) refuse("a span is in it twice");
  for (const { kind, span_id, parent_id } of spans)
    if (kind !== "run" && !ids.has(parent_id ?? "")) refuse(`${kind} ${span_id} has the parent ${parent_id}`);
  const attempts = spans.filter(({ kind }) => kind === "attempt");
  const claims = attempts.map(({ claim = 0 }) => claim);
  if (claims.some((claim, index) => claim <= (claims[index - 1] ?? 0))) refuse(`its attempts are of claims ${claims}`);
  if (!hasAllSpans(trace, attempts)) return;
  if (claims.at(-1) !== run.state.claims) refuse(`its last claim is ${claims.at(-1)} of ${run.state.claims}`);
  if (world.oracle.spans.incompleteRunIds.has(run.run_id)) return;
  const all = spans.length + Object.values(dropped).reduce((sum, count) => sum + count, 0);
  if (totals.spans !== all) refuse(`it counts ${totals.spans} spans, and has ${all}`);
  const models = spans.filter(({ kind }) => kind === "model");
  if (totals.model !== models.length) refuse(`it counts ${totals.model} models, and has ${models.length}`);
  // A failed run counts the work that failed, not itself.
  const errors = spans.filter(({ kind, status }) => kind !== "run" && kind !== "attempt" && status === "error").length;
  if (totals.errors !== errors) refuse(`it counts ${totals.errors} errors, and has ${errors}`);
  // The usage of a call that is stopped may not reach the worker any more.
  if (attempts.some(({ status }) => status !== "ok" && status !== "lost")) return;
  const tokens = models.reduce((sum, { tokens: { in: tokens_in = 0, out = 0 } = {} }) => sum + tokens_in + out, 0);
  if (totals.tokens_in + totals.tokens_out !== tokens)
    refuse(`it counts ${totals.tokens_in + totals.tokens_out} tokens, and its spans have ${tokens}`);
}

/** True unless the spans of the run, or of earlier attempts, were not kept. */
const hasAllSpans = ({ sampled }: RunTrace, attempts: readonly Span[]): boolean => sampled && attempts.length > 0;
