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
  /** The outputs of the records up to `info`, and of the others. Records of the format `json` go to the console. */
  readonly out: Output;
  readonly err: Output;
}

export interface Log {
  write(record: LogRecord): void;
  /** The handler, whose answers are logged. It is the same one where no record of them would be shown. */
  wrapHandler(handler: Handler): Handler;
  /** Undefined where its records would not be shown. Runs that failed are logged by the library. */
  readonly onRunFinished: ((run: FinishedRun) => void) | undefined;
}

/** The paths that supervisors and collectors poll. Their requests are logged at `debug`. */
const POLLED_PATHS = new Set(["/ok", "/ready", "/metrics"]);

/**
 * Creates the log of the server. `wrapHandler` logs each request; polled paths only at level `debug`. `onRunFinished` logs the
 * ends of runs, except failed ones, which the service logs.
 */
export function createLog({ level, format, brief = false, out, err }: LogOptions): Log {
  const minLevelIndex = LOG_LEVELS.indexOf(level);
  const isLogged = (recordLevel: LogLevel): boolean => LOG_LEVELS.indexOf(recordLevel) >= minLevelIndex;
  const { log: writeJson } = systemEnvironment();
  const formatError = brief ? formatThrownError : formatStack;
  /** Writes a record, if its level is logged: warnings and errors to `err`, others to `out`, JSON by the system's log. */
  function write(record: LogRecord): void {
    if (!isLogged(record.level)) return;
    const output = record.level === "warn" || record.level === "error" ? err : out;
    if (format === "json") writeJson(record);
    else output.write(formatTextLine(record, Date.now(), output.color, formatError));
  }
  return {
    write,
    wrapHandler(handler) {
      if (!isLogged("info")) return handler;
      return async (request, host) => {
        const startedAt = performance.now();
        const response = await handler(request, host);
        const path = redactPath(request.url);
        const level = POLLED_PATHS.has(path) || (brief && response.status < 400) ? "debug" : "info";
        if (isLogged(level)) {
          const { status, headers } = response;
          const ms = Math.round(performance.now() - startedAt);
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
          const identifiers = brief
            ? { ...(attempt > 1 ? { attempt } : {}), thread_id }
            : { attempt, run_id, thread_id };
          write({ level: "info", message: "run ended", graph_id, status, ms, ...identifiers });
        }
      : undefined,
  };
}

/**
 * Returns the path of a URL without the query, and with `***` in place of feedback tokens, which let their holder send
 * feedback.
 */
function redactPath(url: string): string {
  const path = /^[a-z]+:\/\/[^/?#]*([^?#]*)/i.exec(url)?.[1] || "/";
  return path.replace(/(feedback(?:\/|%2f)+tokens(?:\/|%2f)+).+$/is, "$1***");
}

const formatStack = (error: Error): string => error.stack ?? String(error);

/**
 * Returns a record as text: time (UTC), level, message and fields; a request and the end of a run have a short form
 * without a level. Below follows what `formatError` returns for an Error. Undefined fields are left out, and control
 * characters are escaped.
 */
export function formatTextLine(
  record: LogRecord,
  now: number,
  color = false,
  formatError: (error: Error) => string = formatStack,
): string {
  const { level, message, ...allFields } = record;
  const { error, ...otherFields } = allFields;
  const fields = error instanceof Error ? otherFields : allFields;
  const paint = (code: number, text: string): string => (color ? `\u001b[${code}m${text}\u001b[0m` : text);
  const time = paint(DIM, new Date(now).toISOString().slice(11, 23));
  const formatFields = (excluded: readonly string[] = []): string[] =>
    Object.entries(fields).flatMap(([name, value]) =>
      value === undefined || excluded.includes(name)
        ? []
        : [paint(DIM, `${name}=${typeof value === "string" ? escapeControls(value) : JSON.stringify(value)}`)],
    );
  if (message === "request") {
    const { method, path, status, ms } = fields as Readonly<Record<string, unknown>>;
    const coloredStatus = paint(STATUS_COLORS[Math.floor(Number(status) / 100)] ?? RED, String(status));
    return [
      time,
      method,
      escapeControls(String(path)),
      coloredStatus,
      `${ms} ms`,
      ...formatFields(["method", "path", "status", "ms"]),
    ].join(" ");
  }
  if (message === "run ended") {
    const { graph_id, status, ms } = fields as Readonly<Record<string, unknown>>;
    const coloredStatus = paint(status === "success" ? GREEN : YELLOW, String(status));
    return [
      time,
      "run",
      escapeControls(String(graph_id)),
      coloredStatus,
      `${ms} ms`,
      ...formatFields(["graph_id", "status", "ms"]),
    ].join(" ");
  }
  const heading = [time, paint(LEVEL_COLORS[level], level), escapeControls(message), ...formatFields()].join(" ");
  if (!(error instanceof Error)) return heading;
  return `${heading}\n${formatError(error)
    .split("\n")
    .map((line) => `  ${escapeControls(line)}`)
    .join("\n")}`;
}

const [DIM, RED, GREEN, YELLOW, CYAN] = [2, 31, 32, 33, 36];
const LEVEL_COLORS: Readonly<Record<LogLevel, number>> = { debug: DIM, info: GREEN, warn: YELLOW, error: RED };
const STATUS_COLORS: Readonly<Record<number, number>> = { 1: CYAN, 2: GREEN, 3: CYAN, 4: YELLOW, 5: RED };

// A terminal would obey them.
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are meant.
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/g;

const escapeControls = (text: string): string =>
  text.replace(CONTROL, (char) => `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`);
