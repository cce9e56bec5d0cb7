/** A WebSocket session with a socket and events in memory. */

import { createRevocationCheck } from "../../../lib/auth/revocation.ts";
import { createSemaphore, createTickBudget, systemEnvironment } from "../../../lib/environment.ts";
import { ServiceError } from "../../../lib/errors.ts";
import type { JsonObject } from "../../../lib/json.ts";
import type { AuthorizedThreadStream } from "../../../lib/protocol/authorization.ts";
import type { EventFilter } from "../../../lib/protocol/mod.ts";
import { createSocketSession, type SocketSession, type SocketSessionOptions } from "../../../lib/protocol/session.ts";
import type { Visibility } from "../../../lib/storage/visibility.ts";
import { createIdleGuards } from "../../support/guards.ts";
import { until } from "../../support/until.ts";
import { MemoryEvents } from "./protocol.harness.ts";

export const THREAD = "11111111-1111-4111-8111-111111111111";

export interface World {
  readonly session: SocketSession;
  readonly events: MemoryEvents;
  readonly sentMessages: JsonObject[];
  readonly closed: (readonly [code: number, reason: string])[];
  readonly socket: { bufferedAmount: number };
  readonly log: unknown[];
  readonly commands: string[];
  /** Lets the timers of at most `ms` fire. */
  elapse(ms: number): void;
  /** Sends a command and waits for its response. */
  send(method: string, params?: JsonObject): Promise<JsonObject>;
  /** Returns the `seq` of the sent events. */
  seqs(): number[];
}

interface WorldOptions extends Partial<SocketSessionOptions> {
  /** Authorizes the reader again. Absent: its access cannot change. */
  readonly again?: () => Promise<Visibility>;
}

export function world({ again, ...options }: WorldOptions = {}, command?: AuthorizedThreadStream["command"]): World {
  const events = new MemoryEvents();
  const sentMessages: JsonObject[] = [];
  const closed: (readonly [number, string])[] = [];
  const log: unknown[] = [];
  const commands: string[] = [];
  const timers = new Map<object, { ms: number; fn: () => void }>();
  const socket: World["socket"] & SocketSessionOptions["socket"] = {
    bufferedAmount: 0,
    send: (text: string) => void sentMessages.push(JSON.parse(text)),
    close: (code: number, reason: string) => void closed.push([code, reason]),
  };
  const scope = { deployment: "default" };
  const findRevocation = again ? createRevocationCheck({}, again) : undefined;
  const thread: AuthorizedThreadStream = {
    subscribe: (filter) => events.subscribe(scope, THREAD, filter),
    readStored: (filter) => events.readStored(scope, THREAD, filter),
    count: (filters) => events.count(scope, THREAD, filters),
    async command(request) {
      commands.push(request.method);
      if (command) return await command(request);
      return { type: "success", id: request.id, result: { method: request.method }, meta: { thread_id: THREAD } };
    },
    findRevocation: async () => (await findRevocation?.()) ?? null,
    guard: (onLost) => guards.open({ scope, ...(findRevocation ? { findRevocation } : {}) }, undefined, onLost),
  };
  const environment = {
    ...systemEnvironment(),
    timer(ms: number, fn: () => void) {
      // A short wait collects subscriptions that arrive together.
      if (ms <= 10) return systemEnvironment().timer(ms, fn);
      const key = {};
      timers.set(key, { ms, fn });
      return () => void timers.delete(key);
    },
    log: (record: unknown) => void log.push(record),
  };
  const guards = createIdleGuards(environment);
  const session = createSocketSession({
    ...{ environment, thread, socket, thread_id: THREAD, max_bytes: 1_000, ids: {} },
    sendBudget: createTickBudget(environment, 64),
    commandBudget: createTickBudget(environment, 1),
    largeMessageBudget: createSemaphore(1024 * 1024),
    async parse(text) {
      try {
        return JSON.parse(text);
      } catch {
        throw new ServiceError("bad_request", "no JSON");
      }
    },
    readFilter: (params) => params as unknown as EventFilter,
    ...options,
  });
  let ids = 0;
  return {
    ...{ session, events, sentMessages, closed, socket, log, commands },
    elapse(ms) {
      for (const [key, timer] of [...timers]) {
        if (timer.ms > ms || !timers.delete(key)) continue;
        timer.fn();
      }
    },
    async send(method, params) {
      const id = ++ids;
      session.onMessage(JSON.stringify({ id, method, params }));
      const answer = (): JsonObject | undefined => sentMessages.find((message) => message.id === id);
      await until(() => answer() !== undefined, `an answer to ${method}`);
      return answer() as JsonObject;
    },
    seqs: () => sentMessages.flatMap((message) => (message.type === "event" ? [message.seq as number] : [])),
  };
}
