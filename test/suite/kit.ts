/** What tests of agents need: a service in memory, a clock they set, ids that repeat. */
import { nodeSqlite } from "../../adapters/node-sqlite.ts";
import type { Ambient } from "../../lib/ambient.ts";
import type { Executor } from "../../lib/executor.ts";
import { type AgentFunction, fromFunctions } from "../../lib/functions/mod.ts";
import { createService, type Service, type ServiceOptions } from "../../lib/service.ts";
import { createHandler } from "../../server.ts";

/** A clock that stands still until it is told otherwise. */
export interface TestClock {
  readonly now: Ambient["now"];
  readonly timer: Ambient["timer"];
  /** Moves time on, calling what is due on the way in order; resolves when the event loop has turned once after each. */
  advance(ms: number): Promise<void>;
}

/** Starts at `start`, milliseconds since 1970; by default 2026-01-01T00:00:00Z. */
export function testClock(start: number = Date.UTC(2026, 0, 1)): TestClock {
  let time = start;
  let order = 0;
  const timers = new Map<number, { at: number; fn: () => void }>();
  const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));
  return {
    now: () => time,
    timer(ms, fn) {
      const id = order++;
      timers.set(id, { at: time + ms, fn });
      return () => timers.delete(id);
    },
    async advance(ms) {
      const until = time + ms;
      while (true) {
        const due = [...timers]
          .filter(([, timer]) => timer.at <= until)
          .sort(([a, x], [b, y]) => x.at - y.at || a - b)[0];
        if (!due) break;
        timers.delete(due[0]);
        time = Math.max(time, due[1].at);
        due[1].fn();
        await turn();
      }
      time = until;
      await turn();
    },
  };
}

/** UUIDs that count up from 1: the same in every run of a test. */
export function testIds(): Ambient["uuid"] {
  let count = 0;
  return () => `00000000-0000-4000-8000-${(++count).toString(16).padStart(12, "0")}`;
}

export interface TestServiceOptions extends Partial<ServiceOptions> {
  /** Plain functions to host; or give `executor`. */
  readonly agents?: Readonly<Record<string, AgentFunction>>;
}

export interface TestService extends AsyncDisposable {
  readonly service: Service;
  /** Give it to a client as its `fetch`: `new Client({ apiUrl: "http://greenroom", callerOptions: { fetch } })`. */
  readonly fetch: (input: string | URL | Request, init?: RequestInit) => Promise<Response>;
  /** Log records so far; none goes to the console. */
  readonly log: readonly Parameters<Ambient["log"]>[0][];
}

/** A service on an in-memory database, with the real clock unless `ambient` holds another. `await using` stops it. */
export async function testService(options: TestServiceOptions): Promise<TestService> {
  const { agents = {}, ambient, ...rest } = options;
  const log: Parameters<Ambient["log"]>[0][] = [];
  const executor: Executor = rest.executor ?? fromFunctions(agents);
  const service = await createService({
    ...rest,
    storage: rest.storage ?? nodeSqlite(":memory:"),
    executor,
    ambient: { log: (record) => void log.push(record), ...ambient },
  });
  const handler = createHandler(service);
  return {
    service,
    log,
    fetch: (input, init) => handler(new Request(input, init)),
    [Symbol.asyncDispose]: () => service.stop(0),
  };
}
