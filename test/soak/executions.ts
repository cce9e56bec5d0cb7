/**
 * The executions' own log: the real actions of agents, independent of the service. Every process appends whole lines to one
 * file, so that the order of its lines is the order of what happened.
 */
import { appendFileSync, closeSync, fstatSync, openSync, readSync } from "node:fs";

/**
 * `begin` and `end`: one call of an agent, or one node of a graph. `step`: a step starts. `hold`: the agent waits to be
 * stopped. `ask`: it is about to ask. `late`: it goes on although it was told to stop. `killed`: written by the soak once a
 * process is gone. `paused`, `resumed`: it stood still by SIGSTOP for longer than its lease.
 */
export type Mark = "begin" | "step" | "hold" | "ask" | "late" | "end" | "killed" | "paused" | "resumed";

export interface Line {
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly pid: number;
  readonly mark: Mark;
  readonly run: string;
  readonly thread: string;
  /** The request's key, as the client chose it. */
  readonly key: string;
  readonly attempt: number;
  /** The id of the execution: no two calls share it. */
  readonly token: string;
  readonly step: number;
  readonly version: number;
}

/** Reads the log as it grows. */
export interface Executions {
  /** Returns all lines so far. */
  lines(): readonly Line[];
  /** Resolves once an execution for this key has got to the mark; rejects after the time. */
  reached(key: string, mark: Mark, ms?: number): Promise<Line>;
  /** Says that a process is gone: what it executed has ended there. */
  killed(pid: number): void;
  /** Notes that a process is paused: others may take over its runs. */
  paused(pid: number): void;
  resumed(pid: number): void;
  close(): void;
}

const POLL_MS = 4;
const START = '{"at":';

/** A process that is killed as it writes over the end of a page leaves the part before it; the next line follows on that. */
export function parseLine(text: string): Line {
  const last = text.lastIndexOf(START);
  return JSON.parse(last > 0 ? text.slice(last) : text) as Line;
}

export function followExecutions(file: string): Executions {
  appendFileSync(file, "");
  const fd = openSync(file, "r");
  const lines: Line[] = [];
  const waiting = new Map<string, { readonly mark: Mark; readonly resolve: (line: Line) => void }[]>();
  const linesByMark = new Map<string, Line>();
  const decoder = new TextDecoder();
  let position = 0;
  let partialLine = "";

  function read(): void {
    for (;;) {
      const size = fstatSync(fd).size - position;
      if (size <= 0) return;
      const bytes = new Uint8Array(Math.min(size, 1 << 20));
      const count = readSync(fd, bytes, 0, bytes.length, position);
      position += count;
      const texts = (partialLine + decoder.decode(bytes.subarray(0, count), { stream: true })).split("\n");
      partialLine = texts.pop() ?? "";
      for (const text of texts) add(parseLine(text));
    }
  }

  function add(line: Line): void {
    lines.push(line);
    linesByMark.set(`${line.key} ${line.mark}`, line);
    for (const { mark, resolve } of waiting.get(line.key) ?? []) if (mark === line.mark) resolve(line);
  }

  function say(mark: Mark, pid: number): void {
    const none = { run: "", thread: "", key: "", attempt: 0, token: "", step: 0, version: 0 };
    appendFileSync(file, `${JSON.stringify({ at: Date.now(), pid, mark, ...none } satisfies Line)}\n`);
  }

  const timer = setInterval(read, POLL_MS);
  return {
    lines() {
      read();
      return lines;
    },
    reached(key, mark, ms = 30_000) {
      read();
      const knownLine = linesByMark.get(`${key} ${mark}`);
      if (knownLine) return Promise.resolve(knownLine);
      return new Promise((resolve, reject) => {
        const list = waiting.get(key) ?? [];
        const timeout = setTimeout(() => {
          waiting.delete(key);
          reject(new Error(`${key} did not get to ${mark} within ${ms} ms`));
        }, ms);
        list.push({
          mark,
          resolve(line) {
            clearTimeout(timeout);
            waiting.delete(key);
            resolve(line);
          },
        });
        waiting.set(key, list);
      });
    },
    killed: (pid) => say("killed", pid),
    paused: (pid) => say("paused", pid),
    resumed: (pid) => say("resumed", pid),
    close() {
      clearInterval(timer);
      closeSync(fd);
    },
  };
}

/** The time in milliseconds after a stall until a process has checked its leases. */
const LEARNED_MS = 1_500;

/**
 * Returns the executions of one thread that ran at the same time: each text names two. `abandoned`: executions that ignore being stopped
 * for longer than the service waits; they may overlap, but the caller has to distinguish them from the others.
 */
export function findOverlaps(lines: readonly Line[], abandoned: (line: Line) => boolean = () => false): string[] {
  const open = new Map<string, Map<string, Line>>();
  // What a paused process executed, and what it begins before it has learned that it has lost it: that must leave nothing.
  const stale = new Set<string>();
  const woken = new Map<number, number>();
  const overlapping: string[] = [];
  for (const line of lines) {
    if (line.mark === "paused") {
      for (const tokens of open.values()) {
        for (const [token, begin] of tokens) if (begin.pid === line.pid) stale.add(token);
      }
      continue;
    }
    if (line.mark === "resumed") {
      woken.set(line.pid, line.at);
      continue;
    }
    if (line.mark === "killed") {
      for (const tokens of open.values()) {
        for (const [token, begin] of tokens) if (begin.pid === line.pid) tokens.delete(token);
      }
      continue;
    }
    const tokens = open.get(line.thread) ?? new Map<string, Line>();
    open.set(line.thread, tokens);
    if (line.mark === "end") tokens.delete(line.token);
    if (line.mark !== "begin") continue;
    if (line.at - (woken.get(line.pid) ?? Number.NEGATIVE_INFINITY) < LEARNED_MS) stale.add(line.token);
    for (const running of tokens.values()) {
      if (stale.has(line.token) || stale.has(running.token) || abandoned(running)) continue;
      const of = (executing: Line): string =>
        `run ${executing.run} attempt ${executing.attempt} (${executing.token}, pid ${executing.pid})`;
      overlapping.push(`thread ${line.thread}: ${of(line)} began while ${of(running)} executed`);
    }
    tokens.set(line.token, line);
  }
  return overlapping;
}

/** Returns the last execution of each run that began. */
export function lastBegins(lines: readonly Line[]): Map<string, Line> {
  return new Map(lines.filter(({ mark }) => mark === "begin").map((line) => [line.run, line]));
}
