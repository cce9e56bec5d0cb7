/** Everything of the outside world the core uses. The defaults are the real ones; a test or a simulation passes its own. */
export interface Environment {
  /** Milliseconds since 1970. */
  now(): number;
  /** Milliseconds since some moment, by a clock that nobody sets. Where it is absent, `now` is taken. */
  monotonic?(): number;
  /** Calls `fn` once after `ms`; the result cancels it. A waiting timer does not keep the process alive. */
  timer(ms: number, fn: () => void): () => void;
  /** Calls `fn` after what is ready now has run: a macrotask, not a microtask. */
  defer(fn: () => void): void;
  /** A number in [0, 1). */
  random(): number;
  /** A random UUID (version 4). */
  uuid(): string;
  /** Takes one log record. */
  log(record: LogRecord): void;
}

/**
 * One log record: `level`, a constant `message`, and fields. Of a request it has the `request_id`, of a run the `run_id` and, where
 * it is known, the `thread_id`. Never holds secrets or user data, except for what an agent's error says. The library writes no
 * `debug` records.
 */
export interface LogRecord {
  readonly level: "debug" | "info" | "warn" | "error";
  readonly message: string;
  readonly [field: string]: unknown;
}

/** The real clock, timers and randomness; log records go to the console as one JSON line each. */
export function systemEnvironment(): Environment {
  const immediate = (globalThis as { setImmediate?: (fn: () => void) => unknown }).setImmediate;
  return {
    now: () => Date.now(),
    monotonic: () => performance.now(),
    timer(ms, fn) {
      const id = setTimeout(fn, ms) as unknown;
      (id as { unref?: () => void }).unref?.();
      return () => clearTimeout(id as number);
    },
    defer: immediate ? (fn) => void immediate(fn) : (fn) => void setTimeout(fn, 0),
    random: () => Math.random(),
    uuid: () => crypto.randomUUID(),
    log(record) {
      const line = logLine(record, Date.now());
      if (record.level === "debug" || record.level === "info") console.info(line);
      else console.error(line);
    },
  };
}

/** A log record as one line of JSON. What JSON cannot hold is left out. */
function logLine(record: LogRecord, now: number): string {
  const { level, message } = record;
  const time = new Date(now).toISOString();
  try {
    return JSON.stringify({ time, ...record }, (_key, value: unknown) =>
      value instanceof Error ? { name: value.name, message: value.message, stack: value.stack } : value,
    );
  } catch {
    return JSON.stringify({ time, level, message });
  }
}

/** Takes log records for one that may throw: a log that fails is no reason for anything else to. */
export const guardedLog =
  (log: Environment["log"]): Environment["log"] =>
  (record) => {
    try {
      log(record);
    } catch {
      // There is nobody left to tell.
    }
  };
