/** What `getLogger()` of `@langchain/langgraph-sdk/logging` gives, also while modules are loaded: it writes to the server's log. */
import type { LogRecord } from "../../lib/mod.ts";
import { currentRun } from "./local.ts";

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

type Log = (record: LogRecord) => void;
type Write = (message: unknown, ...more: readonly unknown[]) => Logger;
type Logger = Readonly<Record<(typeof LEVELS)[number], Write>>;

/** Gives what removes it. */
export function installLogger(log: Log): () => void {
  const write =
    (name: (typeof LEVELS)[number]): Write =>
    (message, ...more) => {
      try {
        log(recordOf(name, message, more));
      } catch {
        // What cannot be written is no reason for the graph to fail.
      }
      return logger;
    };
  const logger = Object.fromEntries(LEVELS.map((name) => [name, write(name)])) as Logger;
  const place = globalThis as { [LOGGER]?: Logger };
  place[LOGGER] = logger;
  return () => {
    if (place[LOGGER] === logger) delete place[LOGGER];
  };
}

function recordOf(name: (typeof LEVELS)[number], given: unknown, more: readonly unknown[]): LogRecord {
  const parts = [given, ...more];
  const error = parts.find((part) => part instanceof Error);
  const fields = parts.filter(isRecord);
  const texts = parts.filter((part) => part !== undefined && !isRecord(part) && part !== error);
  const said = Object.assign({}, ...fields) as Record<string, unknown>;
  const [first = error?.message ?? said.message ?? "", ...rest] = texts;
  const level = name === "error" || name === "warn" ? name : "info";
  const { time: _time, level: _level, message: _message, ...own } = said;
  return {
    level,
    message: typeof first === "string" ? first : JSON.stringify(first),
    ...own,
    ...(rest.length > 0 ? { details: rest } : {}),
    ...(name === level ? {} : { severity: name }),
    ...(error ? { error } : {}),
    ...currentRun(),
  };
}

const isRecord = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Error);
