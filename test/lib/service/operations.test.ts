/** The table of operations has each call of a service, and each call authorizes the events of its row only. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { AuthEvent, AuthHandlers, AuthValues } from "../../../lib/auth/events.ts";
import { OPERATIONS, OPERATIONS_WITHOUT_HANDLERS, ROUTE_OPERATIONS } from "../../../lib/service/operations.ts";
import { serviceInternals } from "../../../lib/service.ts";
import { type TestService, testService } from "../../suite/kit.ts";
import { createUser } from "../../support/users.ts";
import { CALLS, type ResourceIds } from "../auth/authorized-calls.ts";

/** Lists the calls of resources, as `threads.copy`. */
const listCalls = (nouns: object): readonly string[] =>
  Object.entries(nouns).flatMap(([noun, calls]) => Object.keys(calls as object).map((name) => `${noun}.${name}`));

/** Methods that only other parts of the service or calls of the table use. A new method for callers needs a row in the table. */
const INTERNAL: readonly string[] = [
  ...[
    "assistants.ensureDefaults",
    "assistants.findId",
    "assistants.getCached",
    "assistants.isDefault",
    "assistants.resolve",
  ],
  ...["calls.resumeDueCalls", "crons.counters", "crons.stop"],
  ...["protocol.count", "protocol.events", "protocol.readStored", "protocol.recordAll"],
  ...["runs.prepare", "runs.startStored", "threads.expire", "threads.readCurrentState", "threads.requireThread"],
  ...["webhooks.counters", "webhooks.stop"],
];

const user = { ...createUser("ann"), permissions: [] };

/** The members that AuthValues gives each event. The compiler compares both. */
const MEMBERS: { readonly [Event in AuthEvent]: Readonly<Record<keyof AuthValues[Event], true>> } = {
  "threads:create": { metadata: true, thread_id: true, if_exists: true, supersteps: true, ttl: true },
  "threads:read": { metadata: true, thread_id: true, run_id: true, run_ids: true, feedback_id: true },
  "threads:update": {
    ...{ metadata: true, thread_id: true, run_id: true, feedback_id: true, action: true, ttl: true },
    ...{ values: true, as_node: true, checkpoint: true, checkpoint_id: true },
  },
  "threads:delete": {
    ...{ metadata: true, thread_id: true, run_id: true, thread_ids: true, strategy: true, assistant_id: true },
  },
  "threads:search": {
    ...{ metadata: true, limit: true, offset: true, cursor: true, sort_by: true, sort_order: true, ids: true },
    ...{ values: true, status: true, select: true, extract: true, include: true, text: true, state: true },
    ...{ assistant_id: true, graph_id: true, thread_id: true, cron_id: true, user_id: true },
    ...{ created_after: true, created_before: true, started_after: true, started_before: true },
    ...{ failed: true, waiting: true, min_active_ms: true, min_tokens: true },
    ...{ node: true, tool: true, model: true, error_type: true, source: true },
  },
  "threads:create_run": {
    ...{ metadata: true, assistant_id: true, thread_id: true, run_id: true, status: true, multitask_strategy: true },
    ...{ prevent_insert_if_inflight: true, if_not_exists: true, after_seconds: true, kwargs: true },
    ...{ assistant_version: true },
  },
  "assistants:create": {
    ...{ metadata: true, graph_id: true, assistant_id: true, config: true, context: true, name: true },
    ...{ description: true, if_exists: true },
  },
  "assistants:read": { metadata: true, assistant_id: true },
  "assistants:update": {
    ...{ metadata: true, assistant_id: true, graph_id: true, config: true, context: true, name: true },
    ...{ description: true, version: true, activate: true },
  },
  "assistants:delete": { metadata: true, assistant_id: true },
  "assistants:search": {
    ...{ metadata: true, graph_id: true, name: true, limit: true, offset: true, sort_by: true, sort_order: true },
  },
  "crons:create": {
    ...{ metadata: true, schedule: true, assistant_id: true, thread_id: true, if_not_exists: true, timezone: true },
    ...{ end_time: true, enabled: true, on_run_completed: true, input: true, config: true, context: true },
    ...{ webhook: true, interrupt_before: true, interrupt_after: true, multitask_strategy: true, durability: true },
    ...{ checkpoint_during: true, stream_mode: true, stream_subgraphs: true, stream_resumable: true },
    ...{ feedback_keys: true, assistant_version: true },
  },
  "crons:read": { metadata: true, cron_id: true },
  "crons:update": {
    ...{ metadata: true, cron_id: true, schedule: true, timezone: true, end_time: true, enabled: true },
    ...{ on_run_completed: true, input: true, config: true, context: true, webhook: true, interrupt_before: true },
    ...{ interrupt_after: true, multitask_strategy: true, durability: true, checkpoint_during: true },
    ...{ stream_mode: true, stream_subgraphs: true, stream_resumable: true, feedback_keys: true },
    ...{ assistant_version: true },
  },
  "crons:delete": { metadata: true, cron_id: true },
  "crons:search": {
    ...{ metadata: true, assistant_id: true, thread_id: true, enabled: true, limit: true, offset: true },
    ...{ sort_by: true, sort_order: true },
  },
  "store:put": { namespace: true, key: true, value: true, index: true, ttl: true },
  "store:get": { namespace: true, key: true },
  "store:delete": { namespace: true, key: true },
  "store:search": { namespace: true, query: true, filter: true, limit: true, offset: true },
  "store:list_namespaces": { namespace: true, suffix: true, max_depth: true, limit: true, offset: true },
};

describe("the table of operations", () => {
  const authorizedOperations: string[] = [];
  const untyped: string[] = [];
  let kit: TestService;

  before(async () => {
    const on: AuthHandlers = {
      "*": ({ event, value }) => {
        authorizedOperations.push(event);
        untyped.push(...Object.keys(value).filter((name) => !Object.hasOwn(MEMBERS[event], name)));
      },
    };
    kit = await testService({
      agents: { agent: () => "Hi" },
      auth: { custom: { authenticate: () => "ann", on } },
    });
  });
  after(() => kit[Symbol.asyncDispose]());

  function callerNouns() {
    const { access, authorizeRequest } = serviceInternals(kit.service);
    const { runs, protocol } = authorizeRequest(() => access.user(user)).resources;
    const nouns = kit.service.as({ user });
    return { ...nouns, runs: { ...runs, ...nouns.runs }, protocol };
  }

  it("lists each method of the service, and no other", () => {
    const { service } = kit;
    const methods = Object.entries(service).flatMap(([name, member]) => {
      if (typeof member === "function") return [`service.${name}`];
      return Object.entries(member as object).flatMap(([call, value]) =>
        typeof value === "function" ? [`${name}.${call}`] : [],
      );
    });
    assert.ok(methods.length > 100, `only ${methods.length} methods were found`);
    // All calls of `accounts` are alike.
    const { accounts, ...otherOperations } = OPERATIONS_WITHOUT_HANDLERS;
    assert.equal(accounts, "host");
    const named = [...listCalls(OPERATIONS), ...listCalls(otherOperations)];
    assert.deepEqual(named.sort(), methods.filter((name) => !name.startsWith("accounts.")).sort());
  });

  it("lists each method of the resources, except those that only the service calls", () => {
    const { internalResources } = serviceInternals(kit.service);
    const named = [...listCalls(OPERATIONS), ...listCalls(OPERATIONS_WITHOUT_HANDLERS), ...listCalls(ROUTE_OPERATIONS)];
    const unnamed = listCalls(internalResources).filter((call) => !named.includes(call));
    assert.deepEqual(unnamed.sort(), INTERNAL);
  });

  it("lists each method of service.as and of requests, and no other", () => {
    const ofCallers = [...listCalls(OPERATIONS), ...listCalls({ runs: OPERATIONS_WITHOUT_HANDLERS.runs })];
    assert.deepEqual([...listCalls(kit.service.as({ user }))].sort(), ofCallers.sort());
    const both = [...ofCallers, ...listCalls(ROUTE_OPERATIONS)];
    assert.deepEqual([...listCalls(callerNouns())].sort(), both.sort());
  });

  const rows = [OPERATIONS, ROUTE_OPERATIONS].flatMap((table) =>
    Object.entries(table).flatMap(([noun, operations]) =>
      Object.entries(operations as Readonly<Record<string, { readonly events: readonly string[] }>>).map(
        ([name, { events }]) => [`${noun}.${name}`, events] as const,
      ),
    ),
  );

  for (const [name, events] of rows) {
    it(`${name} authorizes ${events.join(", ") || "nothing"}`, async () => {
      const row = CALLS[name];
      assert.ok(row, "CALLS of test/lib/auth/authorized-calls.ts has no such call");
      const call = typeof row === "function" ? row : row.call;
      const things = new Proxy({}, { get: () => crypto.randomUUID() }) as ResourceIds;
      const by = await kit.service.caller(new Request("http://greenroom/"));
      authorizedOperations.length = 0;
      // The ids do not exist, so the call may be refused after authorization.
      await (async () => await call(callerNouns(), things, by))().catch(() => {});
      for (const event of authorizedOperations) assert.ok(events.includes(event), `it asks about ${event}, too`);
      assert.deepEqual(untyped.splice(0), [], "AuthValues lacks members that a handler gets");
      assert.equal(
        new Set(authorizedOperations).size > 0,
        events.length > 0,
        `it asks about ${authorizedOperations.join(", ") || "nothing"}`,
      );
    });
  }
});
