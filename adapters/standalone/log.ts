/** The log of the stand-alone server: which records it shows, and how. */
import { systemEnvironment } from "../../lib/environment.ts";
import type { Handler } from "../../lib/http/handler.ts";
import type { FinishedRun, LogRecord } from "../../lib/mod.ts";
import { formatThrownError } from "./thrown-error.ts";

export type LogLevel = LogRecord["level"];
export type LogFormat = "text" | "json";
export const LOG_LEVELS: readonly LogLevel[] = ["debug", "info", "warn", "error"];
export const LOG_FORMATS: readonly LogFormat[] = ["text", "json"];

/** Takes a line. `color`: it goes to a terminal that shows colours. */
export interface Output {
  readonly color: boolean;
  write(line: string): void;
}

export interface LogOptions {
  readonly level: LogLevel;
  readonly format: LogFormat;
  /** Requests that succeed are logged at `debug`, records of runs are short, and errors show the project's code. */
  readonly brief?: boolean;
  /** Of the records up to `info`, and of the others; those of format `json` go to the console. */
  readonly out: Output;
  readonly err: Output;
}

export interface Log {
  write(record: LogRecord): void;
  /** The handler, whose answers are logged. It is the same one where no record of them would be shown. */
  requests(handler: Handler): Handler;
  /** Undefined where its records would not be shown. Runs that failed are logged by the library. */
  readonly onRunFinished: ((run: FinishedRun) => void) | undefined;
}

/** Asked all the time, by supervisors and collectors. */
const POLLED = new Set(["/ok", "/ready", "/metrics"]);

export function createLog({ level, format, brief = false, out, err }: LogOptions): Log {
  const least = LOG_LEVELS.indexOf(level);
  const isLogged = (of: LogLevel): boolean => LOG_LEVELS.indexOf(of) >= least;
  const { log: writeJson } = systemEnvironment();
  const formatError = brief ? formatThrownError : formatStack;
  function write(record: LogRecord): void {
    if (!isLogged(record.level)) return;
    const output = record.level === "warn" || record.level === "error" ? err : out;
    if (format === "json") writeJson(record);
    else output.write(textLine(record, Date.now(), output.color, formatError));
  }
  return {
    write,
    requests(handler) {
      if (!isLogged("info")) return handler;
      return async (request, host) => {
        const begun = performance.now();
        const response = await handler(request, host);
        const path = shownPath(request.url);
        const level = POLLED.has(path) || (brief && response.status < 400) ? "debug" : "info";
        if (isLogged(level)) {
          const { status, headers } = response;
          const ms = Math.round(performance.now() - begun);
          const request_id = headers.get("x-request-id") ?? undefined;
          write({ level, message: "request", method: request.method, path, status, ms, request_id });
        }
        return response;
      };
    },
    onRunFinished: isLogged("info")
      ? ({ run_id, thread_id, graph_id, status, attempt, started_at, ended_at }) => {
          if (status === "error" || status === "timeout") return;
          const ms = started_at === null ? 0 : Date.parse(ended_at) - Date.parse(started_at);
          const more = brief ? { ...(attempt > 1 ? { attempt } : {}), thread_id } : { attempt, run_id, thread_id };
          write({ level: "info", message: "run ended", graph_id, status, ms, ...more });
        }
      : undefined,
  };
}

/** A path without what must not be logged: queries, and ids that let their holder send feedback. */
function shownPath(url: string): string {
  const path = /^[a-z]+:\/\/[^/?#]*([^?#]*)/i.exec(url)?.[1] || "/";
  return path.replace(/(feedback(?:\/|%2f)+tokens(?:\/|%2f)+).+$/is, "$1***");
}

const formatStack = (error: Error): string => error.stack ?? String(error);

/** One record as text: time, level, message, fields, and below them the stack of an Error. Control characters are written as escapes. */
export function textLine(
  record: LogRecord,
  now: number,
  color = false,
  formatError: (error: Error) => string = formatStack,
): string {
  const { level, message, ...rest } = record;
  const { error, ...others } = rest;
  const fields = error instanceof Error ? others : rest;
  const paint = (code: number, text: string): string => (color ? `\u001b[${code}m${text}\u001b[0m` : text);
  const time = paint(DIM, new Date(now).toISOString().slice(11, 23));
  const shown = (left: readonly string[] = []): string[] =>
    Object.entries(fields).flatMap(([name, value]) =>
      value === undefined || left.includes(name)
        ? []
        : [paint(DIM, `${name}=${typeof value === "string" ? plain(value) : JSON.stringify(value)}`)],
    );
  if (message === "request") {
    const { method, path, status, ms } = fields as Readonly<Record<string, unknown>>;
    const kind = paint(STATUS_COLORS[Math.floor(Number(status) / 100)] ?? RED, String(status));
    return [time, method, plain(String(path)), kind, `${ms} ms`, ...shown(["method", "path", "status", "ms"])].join(
      " ",
    );
  }
  if (message === "run ended") {
    const { graph_id, status, ms } = fields as Readonly<Record<string, unknown>>;
    const kind = paint(status === "success" ? GREEN : YELLOW, String(status));
    return [time, "run", plain(String(graph_id)), kind, `${ms} ms`, ...shown(["graph_id", "status", "ms"])].join(" ");
  }
  const head = [time, paint(LEVEL_COLORS[level], level), plain(message), ...shown()].join(" ");
  if (!(error instanceof Error)) return head;
  return `${head}\n${formatError(error)
    .split("\n")
    .map((line) => `  ${plain(line)}`)
    .join("\n")}`;
}

const [DIM, RED, GREEN, YELLOW, CYAN] = [2, 31, 32, 33, 36];
const LEVEL_COLORS: Readonly<Record<LogLevel, number>> = { debug: DIM, info: GREEN, warn: YELLOW, error: RED };
const STATUS_COLORS: Readonly<Record<number, number>> = { 1: CYAN, 2: GREEN, 3: CYAN, 4: YELLOW, 5: RED };

// A terminal would obey them.
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are meant.
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/g;

const plain = (text: string): string =>
  text.replace(CONTROL, (char) => `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`);
