/** Invariant I16: spans that were stored before a kill are there afterwards, and each run that was started has one whole trace. */
import type { Span } from "../../../lib/storage/spans.ts";
import type { RunTrace } from "../../../lib/traces/run-trace.ts";
import type { Client } from "../client.ts";
import { type Inspection, inspect } from "../database.ts";
import type { Report } from "../report.ts";
import { each, type RunSeen } from "./streams.ts";

/** Looks at the stored spans again and again. */
export interface SpanWatch {
  /** The newest record of each span that was stored at a look, by run and by span id. */
  readonly stored: ReadonlyMap<string, ReadonlyMap<string, Span>>;
  /** Reads what was stored since the last look. Called before each kill. */
  look(): void;
}

const parseSpans = (json: unknown): readonly Span[] => JSON.parse(String(json)) as readonly Span[];

/** Watches the spans in a SQLite file, whose connection is open only while it looks. */
export function watchSpans(file: string): SpanWatch {
  const stored = new Map<string, Map<string, Span>>();
  let last_part = 0;
  let ended_from = 0;
  const add = (run_id: unknown, json: unknown): void => {
    const records = stored.get(String(run_id)) ?? new Map<string, Span>();
    stored.set(String(run_id), records);
    for (const span of parseSpans(json)) records.set(span.span_id, span);
  };
  return {
    stored,
    look() {
      using database = inspect(file);
      for (const { at, run_id, spans } of database.rows(
        "select rowid as at, run_id, spans from run_trace_parts where rowid > ? order by rowid",
        last_part,
      )) {
        add(run_id, spans);
        last_part = Number(at);
      }
      for (const { ended_at, run_id, spans } of database.rows(
        "select run_id, ended_at, spans from run_traces where ended_at >= ? order by ended_at",
        ended_from,
      )) {
        add(run_id, spans);
        ended_from = Number(ended_at);
      }
    },
  };
}

interface TraceEvidence {
  readonly client: Client;
  readonly database: Inspection;
  /** Absent where nobody watched. */
  readonly spans?: SpanWatch | undefined;
}

/** At most so many traces are read over HTTP: first those of runs with several claims. */
const MAX_READS = 1_000;

/** Checks I16 for the runs that are there after the faults, all of which have ended. */
export async function checkSpans(
  report: Report,
  { client, database, spans: watch }: TraceEvidence,
  runsById: ReadonlyMap<string, RunSeen>,
): Promise<void> {
  const wrong: string[] = [];
  const rows = new Map(database.rows("select * from run_traces").map((row) => [String(row.run_id), row]));
  const runs = database.rows("select run_id, thread_id, claims, status, ended_at from runs where stateless = 0");
  for (const { run_id, claims, status, ended_at } of runs) {
    const row = rows.get(String(run_id));
    const isExpected = Number(claims) > 0;
    if (isExpected !== (row !== undefined))
      wrong.push(`run ${run_id} (${status}, ${claims} claims) has ${row ? "a" : "no"} trace`);
    if (row && (row.status !== status || Number(row.ended_at) !== Number(ended_at)))
      wrong.push(`run ${run_id} ended as ${status} at ${ended_at}, its trace says ${row.status} at ${row.ended_at}`);
  }
  report.note("I16 traces, parts", `${rows.size}, ${countRows(database, "run_trace_parts")}`);
  report.none("I16 runs without one trace", wrong);
  if (watch) checkStored(report, database, watch, runsById);
  const read = runs
    .filter(({ claims }) => Number(claims) > 0)
    .toSorted((a, b) => Number(b.claims) - Number(a.claims))
    .slice(0, MAX_READS);
  const problems: string[] = [];
  await each(read, async ({ run_id, thread_id }) => {
    const trace: RunTrace = await client.get("GET", `/threads/${thread_id}/runs/${run_id}/trace`);
    problems.push(...findProblems(trace).map((text) => `run ${run_id}: ${text}`));
  });
  report.note("I16 traces read, of which with several claims", `${read.length}, ${countRetried(read)}`);
  report.none("I16 traces with an open span, a wrong order or wrong totals", problems);
}

const countRows = (database: Inspection, table: string): number =>
  Number(database.rows(`select count(*) as n from ${table}`)[0]?.n);

const countRetried = (runs: readonly Readonly<Record<string, unknown>>[]): number =>
  runs.filter(({ claims }) => Number(claims) > 1).length;

/** Compares what was stored before kills with what is stored now. Spans of runs that were rolled back are gone. */
function checkStored(
  report: Report,
  database: Inspection,
  { stored }: SpanWatch,
  runsById: ReadonlyMap<string, RunSeen>,
): void {
  const lost: string[] = [];
  let count = 0;
  let parts = 0;
  for (const [run_id, records] of stored) {
    if (!runsById.has(run_id)) continue;
    const now = new Map<string, Span>();
    for (const { spans } of database.rows(
      `select spans from (select part, spans from run_trace_parts where run_id = ?1
        union all select 9e15, spans from run_traces where run_id = ?1) order by part`,
      run_id,
    ))
      for (const span of parseSpans(spans)) now.set(span.span_id, span);
    for (const span of records.values()) {
      const { kind, span_id, status, duration_ms } = span;
      const found = now.get(span_id);
      count += 1;
      if (status === "open") parts += 1;
      if (!found) lost.push(`${kind} ${span_id} of run ${run_id} was stored, and is gone`);
      else if (status !== "open" && (found.status !== status || found.duration_ms !== duration_ms))
        lost.push(`${kind} ${span_id} of run ${run_id} was ${status}, and is ${found.status}`);
    }
  }
  report.note("I16 spans stored before a kill, of which open", `${count}, ${parts}`);
  report.none("I16 spans that were stored and are lost", lost);
  report.atLeast("I16 spans that were stored before a kill", count, 1);
}

/** Returns what is wrong with the trace of an ended run. */
function findProblems({ spans, totals, dropped, sampled }: RunTrace): string[] {
  const problems: string[] = [];
  const open = spans.filter(({ status }) => status === "open").length;
  if (open > 0) problems.push(`${open} spans are open`);
  if (spans.filter(({ kind }) => kind === "run").length !== 1) problems.push("no span of the run, or several");
  const claims = spans.filter(({ kind }) => kind === "attempt").map(({ claim = 0 }) => claim);
  if (claims.length === 0 || claims.some((claim, index) => claim <= (claims[index - 1] ?? 0)))
    problems.push(`attempts of the claims ${claims}`);
  const all = Object.values(dropped).reduce((sum, count) => sum + count, spans.length);
  if (sampled && totals.spans !== all) problems.push(`${all} spans, and the totals say ${totals.spans}`);
  return problems;
}
