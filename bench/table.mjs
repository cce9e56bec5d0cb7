// The rows of `npm run bench`: what they compare, their goals, and the least that counts as done.
import { median } from "./load.mjs";

/** On Node the least may be missed by this factor: its HTTP server and streams cost more than Bun's. */
const ON_NODE = 1.3;

/**
 * [row, what, figure, unit, of what the ratio is, goal, least]. A goal with a unit is of the figure itself, another one of its ratio, or
 * of the figure where the row has none. "=": the goal is the least. A row without a least never fails.
 */
const ROWS = [
  ["H1", "/runs/wait echo, 64 clients", "wait_per_s", "/s", "hand", ">= 0.8", ">= 0.65"],
  ["H2", "  CPU of such a run", "wait_cpu_ms", "ms", "hand", "<= 1.2", "<= 1.5"],
  ["H3", "  1 client, p50", "wait_ms", "ms", "hand", "<= 1.5", "<= 1.7"],
  ["", "  1 client, CPU of a run", "wait_one_cpu_ms", "ms", "hand"],
  ["H4", "100 streams of 200 tokens at 5 ms, events", "events_per_s", "/s", "hand", ">= 0.95", ">= 0.9"],
  ["H5", "  CPU of such a stream", "stream_cpu_ms", "ms", "hand", "<= 1.2", "<= 1.3"],
  ["H6", "  first token p50", "token_100_ms", "ms", "hand", "<= 1.1"],
  ["H7", "one thread: turn 10, p50", "turn_early_ms", "ms", "hand"],
  ["H7", "  turn 500 (1,000 messages), p50", "turn_late_ms", "ms", "hand", "<= 5 ms", "="],
  ["H7", "  CPU of turn 500 : turn 10", "turn_cpu_ratio", "", "", "<= 2", "="],
  ["H8", "fresh thread and a run on it, 128 clients", "fresh_per_s", "/s", "", ">= 1200 /s"],
  ["", "  CPU of the pair", "fresh_cpu_ms", "ms"],
  ["H9", "threads search, first page: 100,000 rows : 1,000", "page_ratio", "", "", "<= 1.5", "="],
  ["", "  p50 over 100,000 rows", "page_ms", "ms"],
  ["H10", "  last page of 100,000 rows, p50", "last_ms", "ms", "", "<= 5 ms", "="],
  ["H11", "process start to first /ok, no LangGraph", "started_ms", "ms", "plain", "<= 60 ms", "="],
  ["", "  CPU of it", "started_cpu_ms", "ms"],
  ["", "  with 10,000 suspended runs", "started_full_ms", "ms"],
  ["", "  CPU with them : without", "started_full_ratio", "", "", "<= 1.1"],
  ["H12", "RSS after many runs", "rss_MiB", "MiB", "hand", "<= 1.3"],
  ["H13", "POST /threads with 100,000 keys: longest /ok", "stall_ms", "ms", "", "<= 100 ms", "="],
  ["H14", "commit of 5 ms: p99 gap between two tokens", "gap_p99_ms", "ms", "", "<= 10 ms", "="],
  ["8", "one token stream, first event p50", "first_1_ms", "ms", "hand", "<= 1 ms"],
  ["9", "16 streams without delay, events", "burst_per_s", "/s", "hand", ">= 0.35"],
  ["11", "bytes of a stream of 200 tokens", "stream_bytes", "B", "peer", "<= 0.5"],
  ["15", "assistants search: 100,000 rows : 1,000", "assistants_ratio", "", "", "<= 2.5"],
  ["18", "pace of the last 1,000 stored runs : the first", "kept_pace", "", "", ">= 0.95"],
  ["19", "CPU of a run of an empty function, :memory:", "function_cpu_ms", "ms", "", "<= 0.25 ms"],
  ["20", "  CPU on a file : on :memory:", "file_ratio", "", "", "<= 1.25"],
  ["21", "statements of a run on a thread, time for spans : for events", "spans_time_ratio", "", "", "<= 3", "="],
  ["", "  bytes of their parameters : 500 + 300 per span", "spans_bytes_share", "", "", "<= 1", "="],
  ["", "  JavaScript of a span, with its JSON", "span_us", "µs", "", "<= 10 µs", "="],
  ["22", "CPU of an echo run, 64 clients, spans kept : not kept", "spans_cpu_ratio", "", "", "<= 1.05"],
  ["23", "trace of 5,000 tool calls, answer p50", "trace_ms", "ms", "", "<= 200 ms", "="],
  ["", "  longest /ok while it is made and read", "trace_stall_ms", "ms", "", "<= 100 ms", "="],
];

const OURS = ["greenroom", "greenroom without LangGraph", "packed"];

function judge(text, figure, ratio, slack) {
  if (!text) return undefined;
  const [, sign, bound, unit] = /^(<=|>=) ([\d.]+)(.*)$/.exec(text);
  const value = unit || ratio === undefined ? figure : ratio;
  return sign === "<=" ? value <= Number(bound) * slack : value >= Number(bound) / slack;
}

/** Ratios of two lists, pair by pair; of their medians where they were not measured in pairs. */
function toRatios(mine, theirs) {
  if (mine.length === theirs.length) return mine.map((value, i) => value / theirs[i]);
  return [median(mine) / median(theirs)];
}

/** Returns the table as data: medians over the rounds, and the smallest and largest ratio. */
export function createRows(figures, runtime) {
  const rows = [];
  for (const [row, what, figure, unit, against = "", goal = "", minimum = ""] of ROWS) {
    const of = figures[figure] ?? {};
    const mine = OURS.map((name) => of[name]).find(Boolean);
    if (!mine) continue;
    const least = minimum === "=" ? goal : minimum;
    const ratios = of[against] ? toRatios(mine, of[against]) : [];
    const ratio = ratios.length > 0 ? median(ratios) : undefined;
    // A goal that is a ratio cannot be judged without the other side.
    const judged = against === "" || ratio !== undefined || /[a-z/]$/i.test(goal);
    const met = judged ? judge(goal, median(mine), ratio, 1) : undefined;
    const done = judged ? judge(least, median(mine), ratio, runtime === "node" ? ON_NODE : 1) : undefined;
    rows.push({
      ...{ row, what: what.trim(), unit, against, goal, least },
      ours: median(mine),
      ours_range: [Math.min(...mine), Math.max(...mine)],
      hand: of.hand && median(of.hand),
      plain: of.plain && median(of.plain),
      peer: of.peer && median(of.peer),
      ratio,
      ratio_range: ratios.length > 0 ? [Math.min(...ratios), Math.max(...ratios)] : undefined,
      verdict: met === undefined ? "" : met ? "met" : done === true ? "done" : done === false ? "FAILED" : "missed",
      shown: what,
    });
  }
  return rows;
}

export function show(value) {
  if (value === undefined || Number.isNaN(value)) return "-";
  return value >= 100 ? Math.round(value).toLocaleString("en") : value.toPrecision(3);
}
const range = ([least, most]) => `(${show(least)}..${show(most)})`;

/** Returns lines of text in columns. */
export function align(table) {
  const widths = table[0].map((_, column) => Math.max(...table.map((line) => String(line[column]).length)));
  const cells = (line) => line.map((cell, column) => String(cell).padEnd(widths[column]));
  return table.map((line) => cells(line).join("  ").trimEnd()).join("\n");
}

export function formatTable(rows) {
  const head = ["#", "what", "peer", "by hand", "Greenroom (min..max)", "ratio (min..max)", "goal", "least", ""];
  const lines = rows.map((row) => [
    row.row,
    `${row.shown}${row.unit && `, ${row.unit}`}`,
    show(row.peer),
    row.against === "plain" ? `${show(row.plain)} *` : show(row.hand),
    `${show(row.ours)} ${range(row.ours_range)}`,
    row.ratio === undefined ? "-" : `${show(row.ratio)} ${range(row.ratio_range)}`,
    row.goal || "-",
    row.least || "-",
    row.verdict,
  ]);
  return align([head, ...lines]);
}
