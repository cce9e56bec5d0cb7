/** The logger that `getLogger()` of `@langchain/langgraph-sdk/logging` returns: it writes to the log of the server. */
import type { LogRecord } from "../../lib/mod.ts";
import { getCurrentRun } from "./local.ts";

const LOGGER = Symbol.for("langgraph.api.sdk-logger");
const LEVELS = [
  "error",
  "warn",
  "help",
  "data",
  "info",
  "debug",
  "prompt",
  "http",
  "verbose",
  "input",
  "silly",
] as const;

type WriteRecord = (record: LogRecord) => void;
type Write = (message: unknown, ...otherParts: readonly unknown[]) => Logger;
type Logger = Readonly<Record<(typeof LEVELS)[number], Write>>;

/**
 * Puts the logger of LangGraph's SDK on `globalThis`, in place of an earlier one; it writes to `log`, whose errors are
 * ignored. Returns a function that removes it, unless another one was installed since.
 */
export function installLogger(log: WriteRecord): () => void {
  const createWriter =
    (name: (typeof LEVELS)[number]): Write =>
    (message, ...otherParts) => {
      try {
        log(toLogRecord(name, message, otherParts));
      } catch {
        // What cannot be written is no reason for the graph to fail.
      }
      return logger;
    };
  const logger = Object.fromEntries(LEVELS.map((name) => [name, createWriter(name)])) as Logger;
  const globals = globalThis as { [LOGGER]?: Logger };
  globals[LOGGER] = logger;
  return () => {
    if (globals[LOGGER] === logger) delete globals[LOGGER];
  };
}

/**
 * Returns the record of what a graph logs: the first text is the message, other texts are `details`, objects become
 * fields, and the first error is `error`. Levels other than `warn` and `error` become `info` with the level as
 * `severity`. Adds the current run.
 */
function toLogRecord(name: (typeof LEVELS)[number], firstPart: unknown, otherParts: readonly unknown[]): LogRecord {
  const parts = [firstPart, ...otherParts];
  const error = parts.find((part) => part instanceof Error);
  const fields = parts.filter(isRecord);
  const texts = parts.filter((part) => part !== undefined && !isRecord(part) && part !== error);
  const mergedFields = Object.assign({}, ...fields) as Record<string, unknown>;
  const [text = error?.message ?? mergedFields.message ?? "", ...details] = texts;
  const level = name === "error" || name === "warn" ? name : "info";
  const { time: _time, level: _level, message: _message, ...otherFields } = mergedFields;
  return {
    level,
    message: typeof text === "string" ? text : JSON.stringify(text),
    ...otherFields,
    ...(details.length > 0 ? { details: details } : {}),
    ...(name === level ? {} : { severity: name }),
    ...(error ? { error } : {}),
    ...getCurrentRun(),
  };
}

const isRecord = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Error);
