/** Shows the trace of a run: its spans as a tree, with bars on an axis. A press on a row shows the details of the span. */
// biome-ignore-all lint/a11y/useFocusableInteractive: the rows of a treegrid have the focus, and its cells none
import { Fragment, type VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Span } from "../../api/types.ts";
import { pageAddress, setQuery } from "../../frame/router.ts";
import { formatCount, formatDuration, formatMoney } from "../../parts/components.tsx";
import { type Axis, createAxis, type Gap } from "./axis.ts";
import { SpanDetails } from "./span-details.tsx";
import {
  createRows,
  findEnd,
  formatName,
  formatNotes,
  formatStatus,
  listSegments,
  type TraceRow,
} from "./trace-rows.ts";
import { getNow, type ReadTrace } from "./trace-source.ts";

/** The number of rows that are shown at first, and that are added. */
const SHOWN_ROWS = 300;
const TICK_MS = 1000;
/** Spans that wait, as their bars show. */
const WAITING_KINDS: ReadonlySet<string> = new Set(["queue", "sleep", "wait", "ask"]);
const FAILED: ReadonlySet<string> = new Set(["error", "timeout", "lost"]);

const UNITS = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "min"],
  [1000, "s"],
] as const;

/** Returns a duration in one unit, with at most one decimal: there is little room in a gap. */
function formatRoughly(ms: number): string {
  const [size, unit] = UNITS.find(([length]) => ms >= length) ?? [1000, "s"];
  return `${Number((ms / size).toFixed(1))} ${unit}`;
}

/** Shows the gaps of the axis in a row, so that they go through all rows. */
function GapMarks({ gaps, isHead = false }: { readonly gaps: readonly Gap[]; readonly isHead?: boolean }): VNode {
  return (
    <>
      {gaps.map((gap) => (
        <span key={gap.from} class="gap" style={{ left: gap.left, width: gap.width }}>
          {isHead && gap.isLabelled ? formatRoughly(gap.to - gap.from) : null}
        </span>
      ))}
    </>
  );
}

interface BarProps {
  readonly span: Span;
  readonly axis: Axis;
  /** The end of open bars. */
  readonly end_ms: number;
  readonly isParent: boolean;
}

/** Shows the bar of a span on the track, with a mark at its first token. A very short one stays visible. */
function Bar({ span, axis, end_ms, isParent }: BarProps): VNode {
  const { kind, status, start_ms, first_token_ms } = span;
  const to = findEnd(span, end_ms);
  const classes = [
    ...["bar", `kind-${kind}`],
    ...(isParent ? ["parent"] : []),
    ...(WAITING_KINDS.has(kind) ? ["idle"] : []),
    ...(FAILED.has(status) ? ["failed"] : []),
  ];
  return (
    <>
      <span
        class={classes.join(" ")}
        style={{ left: `min(${axis.toLeft(start_ms)}, 100% - 3px)`, width: axis.toWidth({ from: start_ms, to }) }}
      />
      {first_token_ms === undefined ? null : (
        <span class="first-token" style={{ left: axis.toLeft(start_ms + first_token_ms) }} />
      )}
    </>
  );
}

interface RowProps extends Omit<BarProps, "isParent" | "span"> {
  readonly row: TraceRow;
  readonly gaps: readonly Gap[];
  readonly isFolded: boolean;
  readonly isSelected: boolean;
  /** True for the one row that the Tab key reaches. */
  readonly isReachable: boolean;
  fold(span_id: string): void;
  select(span_id: string): void;
}

/** Shows a span. A press on it shows or hides its details, one on the triangle folds what is below it. */
function Row({ row, axis, gaps, end_ms, isFolded, isSelected, isReachable, fold, select }: RowProps): VNode {
  const { span, level, hasChildren, tokens, cost_usd } = row;
  const { span_id, start_ms, status, duration_ms } = span;
  const [kind, name] = formatName(span);
  const notes = formatNotes(span).join(" · ");
  const [sign, statusText] = formatStatus(span);
  const offset = `${start_ms < 0 ? "−" : "+"}${formatDuration(Math.abs(start_ms))}`;
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the tree has the keys
    <div
      role="row"
      class={`span-row ${FAILED.has(status) ? "failed" : ""}`}
      data-span={span_id}
      aria-level={level}
      aria-expanded={hasChildren ? !isFolded : undefined}
      aria-selected={isSelected}
      tabIndex={isReachable ? 0 : -1}
      onClick={() => select(span_id)}
    >
      <span role="gridcell" class="span-name" style={{ "--level": Math.min(level, 12) - 1 }}>
        {hasChildren ? (
          <button
            type="button"
            class="quiet fold"
            tabIndex={-1}
            aria-label={`${isFolded ? "Unfold" : "Fold"} ${kind} ${name}`}
            onClick={(event) => {
              event.stopPropagation();
              fold(span_id);
            }}
          >
            {isFolded ? "▸" : "▾"}
          </button>
        ) : null}
        <span class="label" title={`${kind} ${name}`}>
          <span class="kind">{kind}</span> {name}
        </span>
        {status === "ok" ? null : (
          <span class={`state ${status}`}>
            <span aria-hidden="true">{sign}</span> {statusText}
          </span>
        )}
        {notes ? (
          <span class="notes" title={notes}>
            {notes}
          </span>
        ) : null}
      </span>
      <span role="gridcell" class="track" title={offset}>
        <GapMarks gaps={gaps} />
        <Bar span={span} axis={axis} end_ms={end_ms} isParent={hasChildren} />
        <span class="hidden">{offset}</span>
      </span>
      <span role="gridcell" class="figure tokens">
        {tokens > 0 ? formatCount(tokens) : ""}
      </span>
      <span role="gridcell" class="figure cost">
        {cost_usd > 0 ? formatMoney(cost_usd) : ""}
      </span>
      <span role="gridcell" class="figure time">
        {formatDuration(duration_ms ?? findEnd(span, end_ms) - start_ms)}
      </span>
    </div>
  );
}

/** Returns the row that a key leads to from a row; null if the key leads to none. */
function findNext(rows: readonly TraceRow[], index: number, key: string): TraceRow | null {
  const level = rows[index]?.level ?? 1;
  const targets: Readonly<Record<string, number>> = {
    ArrowDown: index + 1,
    ArrowUp: index - 1,
    Home: 0,
    End: rows.length - 1,
    ArrowRight: (rows[index + 1]?.level ?? 0) > level ? index + 1 : -1,
    ArrowLeft: rows.slice(0, index).findLastIndex((row) => row.level < level),
  };
  return rows[targets[key] ?? -1] ?? null;
}

/** Renders once per second while `isOn`, because open bars grow. */
function useTick(isOn: boolean): void {
  const [, setTick] = useState(0);
  useEffect(() => {
    if (!isOn) return;
    const timer = setInterval(() => setTick((tick) => tick + 1), TICK_MS);
    return () => clearInterval(timer);
  }, [isOn]);
}

const GAP_WORDS = { active: "", queued: "queued", suspended: "suspended", waiting: "waiting" };
const MAX_NAMED_GAPS = 6;

/** Returns the gaps that are not to scale, with their lengths. */
function formatGaps(gaps: readonly Gap[]): string {
  const texts = gaps
    .slice(0, MAX_NAMED_GAPS)
    .map(({ kind, from, to }) => `${GAP_WORDS[kind]} ${formatDuration(to - from)}`);
  const unnamed = gaps.length > texts.length ? `, and ${gaps.length - texts.length} more` : "";
  return `Not to scale: ${texts.join(", ")}${unnamed}.`;
}

/** Returns what the trace does not have; none for a complete one. */
const formatDropped = (dropped: Readonly<Partial<Record<string, number>>>): string[] => {
  const texts = Object.entries(dropped).map(([kind, count]) => `${formatCount(count ?? 0)} ${kind}`);
  return texts.length > 0 ? [`More spans than a trace keeps: ${texts.join(", ")} are left out.`] : [];
};

interface HeadProps {
  readonly axis: Axis;
}

/** Shows the names of the columns, and the lengths of the gaps. */
function TreeHead({ axis }: HeadProps): VNode {
  return (
    <div role="row" class="span-head">
      <span role="columnheader">Span</span>
      <span role="columnheader" class="track">
        <span class="hidden">Start</span>
        <GapMarks gaps={axis.gaps} isHead />
      </span>
      <span role="columnheader" class="figure tokens">
        Tokens
      </span>
      <span role="columnheader" class="figure cost">
        Cost
      </span>
      <span role="columnheader" class="figure time">
        Duration
      </span>
    </div>
  );
}

/**
 * Shows a trace as a tree with the keys of one: arrows move and fold, Home and End go to the ends, Enter shows the details of a span.
 * The address has the span whose details are shown. Below are notes: what is not to scale, and what was not kept.
 */
export function TraceTree({ read }: { readonly read: ReadTrace }): VNode {
  const { trace } = read;
  const [folded, setFolded] = useState<ReadonlySet<string>>(new Set());
  const [reachable, setReachable] = useState<string | null>(null);
  const [limit, setLimit] = useState(SHOWN_ROWS);
  const tree = useRef<HTMLDivElement>(null);
  useTick(trace.ended_at === undefined);
  const segments = listSegments(trace, getNow(read));
  const end_ms = segments.at(-1)?.to ?? 0;
  const axis = createAxis(segments);
  const all = createRows(trace.spans, folded);
  const rows = all.slice(0, limit);
  const selected = pageAddress.value.query.get("span");
  const reached = rows.some(({ span }) => span.span_id === reachable) ? reachable : (rows[0]?.span.span_id ?? null);

  /** Folds what is below a span, or unfolds it. */
  const fold = (span_id: string): void => {
    const next = new Set(folded);
    if (!next.delete(span_id)) next.add(span_id);
    setFolded(next);
  };
  /** Shows the details of a span, or hides them. */
  const select = (span_id: string): void => {
    setReachable(span_id);
    setQuery({ span: span_id === selected ? null : span_id });
  };
  /** Does what a key does on a row. Keys in the details are left alone. */
  const handleKey = (event: KeyboardEvent): void => {
    const target = event.target as HTMLElement;
    const index = rows.findIndex(({ span }) => span.span_id === target.dataset["span"]);
    const row = rows[index];
    if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
    const { span_id } = row.span;
    const isFolded = folded.has(span_id);
    const folds = row.hasChildren && event.key === (isFolded ? "ArrowRight" : "ArrowLeft");
    const next = findNext(rows, index, event.key);
    if (event.key === "Enter" || event.key === " ") select(span_id);
    else if (folds) fold(span_id);
    else if (next) {
      setReachable(next.span.span_id);
      tree.current?.querySelector<HTMLElement>(`[data-span="${CSS.escape(next.span.span_id)}"]`)?.focus();
    } else return;
    event.preventDefault();
  };

  const notes = [...(axis.gaps.length > 0 ? [formatGaps(axis.gaps)] : []), ...formatDropped(trace.dropped)];
  return (
    <div class="trace">
      <div ref={tree} role="treegrid" class="time-line" aria-label="Time line" onKeyDown={handleKey}>
        <TreeHead axis={axis} />
        {rows.map((row) => {
          const { span_id } = row.span;
          const isSelected = span_id === selected;
          return (
            <Fragment key={span_id}>
              <Row
                {...{ row, axis, end_ms, isSelected, fold, select }}
                gaps={axis.gaps}
                isFolded={folded.has(span_id)}
                isReachable={span_id === reached}
              />
              {isSelected ? (
                <div role="row" class="span-details" aria-level={row.level}>
                  <div role="gridcell" aria-colspan={5}>
                    <SpanDetails span={row.span} trace={trace} />
                  </div>
                </div>
              ) : null}
            </Fragment>
          );
        })}
      </div>
      {all.length > limit ? (
        <button type="button" onClick={() => setLimit(limit + SHOWN_ROWS)}>
          Show more of {formatCount(all.length)} spans
        </button>
      ) : null}
      {notes.map((note) => (
        <p key={note} class="faint">
          {note}
        </p>
      ))}
    </div>
  );
}
