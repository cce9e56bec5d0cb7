/** WebSocket sessions of the thread event protocol, with a socket and events in memory. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createTickBudget } from "../../../lib/environment.ts";
import { ServiceError } from "../../../lib/errors.ts";
import type { JsonObject } from "../../../lib/json.ts";
import type { CommandResponse } from "../../../lib/protocol/mod.ts";
import type { ProtocolEvent } from "../../../lib/streams/event-filter.ts";
import { until } from "../../support/until.ts";
import { event } from "./protocol.harness.ts";
import { THREAD, world } from "./session.harness.ts";

const readSubscriptionId = (answer: JsonObject): string => (answer.result as JsonObject).subscription_id as string;

const meta = (applied_through_seq: number): JsonObject => ({ thread_id: THREAD, applied_through_seq });

describe("a WebSocket session", () => {
  it("responds to a subscription before its first event, replays, and continues live", async () => {
    const { events, sentMessages, send, seqs, session } = world();
    events.add(event(1, "values"), event(2, "messages"), event(3, "lifecycle"));
    const answer = await send("subscription.subscribe", { channels: ["values", "lifecycle"] });
    assert.equal(answer.type, "success");
    assert.match(readSubscriptionId(answer), /^[0-9a-f-]{36}$/);
    await until(() => seqs().length === 2);
    assert.equal(sentMessages[0], answer);
    events.add(event(4, "messages"), event(5, "values"));
    await until(() => seqs().length === 3);
    assert.deepEqual(seqs(), [1, 3, 5]);
    assert.deepEqual(sentMessages.at(-1), JSON.parse(event(5, "values").data));
    session.onClose();
    await until(() => events.open === 0);
  });

  it("returns the number of replayed events and the last one", async () => {
    const { events, send, seqs, sentMessages } = world();
    const none = await send("subscription.subscribe", { channels: ["values"] });
    assert.deepEqual([(none.result as JsonObject).replayed_events, none.meta], [0, meta(0)]);
    events.add(event(1, "values"), event(2, "messages"), event(3, "values"), event(4, "messages"));
    await until(() => seqs().length === 2);
    const some = await send("subscription.subscribe", { channels: ["messages", "values"], since: 1 });
    assert.deepEqual([(some.result as JsonObject).replayed_events, some.meta], [3, meta(4)]);
    await until(() => seqs().length === 5);
    assert.ok(sentMessages.indexOf(some) < sentMessages.findIndex(({ seq }) => seq === 2), "the answer comes first");
    const unsubscribed = await send("subscription.unsubscribe", { subscription_id: readSubscriptionId(some) });
    assert.deepEqual(unsubscribed.meta, meta(4));
  });

  it("applies since, namespaces and depth", async () => {
    const { events, send, seqs } = world();
    events.add(event(1, "values"), event(2, "values", { namespace: ["a:1"] }));
    await send("subscription.subscribe", { channels: ["values"], namespaces: [["a"]], depth: 0, since: 1 });
    events.add(
      event(3, "values", { namespace: ["a:1", "b:2"] }),
      event(4, "values", { namespace: ["a:2"] }),
      event(5, "values", { namespace: ["b:1"] }),
      event(6, "values", { namespace: ["a:1"] }),
    );
    await until(() => seqs().at(-1) === 6);
    assert.deepEqual(seqs(), [2, 4, 6]);
  });

  it("replays what a later subscription missed, and keeps the order of live events", async () => {
    const { events, send, seqs, sentMessages } = world();
    events.add(event(1, "values"), event(2, "messages"), event(3, "values"));
    await send("subscription.subscribe", { channels: ["values"] });
    await until(() => seqs().length === 2);
    const second = await send("subscription.subscribe", { channels: ["messages"], namespaces: [[]], depth: 0 });
    await until(() => seqs().length === 3);
    assert.deepEqual(seqs(), [1, 3, 2]);
    assert.ok(sentMessages.indexOf(second) < sentMessages.findIndex((message) => message.seq === 2));
    events.add(
      event(4, "messages"),
      event(5, "values", { namespace: ["a:1"] }),
      event(6, "messages", { namespace: ["a:1"] }),
      event(7, "values"),
    );
    await until(() => seqs().at(-1) === 7);
    assert.deepEqual(seqs().slice(3), [4, 5, 7]);
    assert.equal(events.open, 1);
  });

  it("replays once for subscriptions that are sent together, in the order of seq", async () => {
    const { events, seqs, session, sentMessages } = world();
    events.add(event(1, "lifecycle"), event(2, "values"), event(3, "messages"), event(4, "lifecycle"));
    const subscribe = (id: number, params: JsonObject): void =>
      session.onMessage(JSON.stringify({ id, method: "subscription.subscribe", params }));
    // The SDK sends these after a reconnect. The messages may arrive one by one.
    subscribe(101, { channels: ["lifecycle"] });
    await new Promise((resolve) => setImmediate(resolve));
    subscribe(102, { channels: ["values", "lifecycle"] });
    await until(() => seqs().length >= 3);
    assert.deepEqual(seqs(), [1, 2, 4]);
    assert.deepEqual(
      sentMessages.slice(0, 2).map(({ id }) => id),
      [101, 102],
    );
    subscribe(103, { channels: ["messages"], since: 2 });
    subscribe(104, { channels: ["lifecycle"], since: 1 });
    subscribe(105, { channels: ["values"], since: 3 });
    await until(() => sentMessages.some(({ id }) => id === 105));
    events.add(event(5, "values"));
    await until(() => seqs().includes(5));
    assert.deepEqual(seqs(), [1, 2, 4, 3, 4, 5]);
  });

  it("sends only newer events to a later subscription with since", async () => {
    const { events, send, seqs } = world();
    events.add(event(1, "values"), event(2, "messages"), event(3, "messages"), event(4, "values"));
    await send("subscription.subscribe", { channels: ["values"] });
    await until(() => seqs().length === 2);
    await send("subscription.subscribe", { channels: ["messages"], since: 2 });
    await until(() => seqs().length === 3);
    await send("subscription.subscribe", { channels: ["lifecycle"], since: 6 });
    events.add(event(5, "lifecycle"), event(6, "values"), event(7, "lifecycle"));
    await until(() => seqs().at(-1) === 7);
    assert.deepEqual(seqs(), [1, 4, 3, 6, 7]);
  });

  it("sends nothing for an ended subscription", async () => {
    const { events, send, seqs } = world();
    const values = readSubscriptionId(await send("subscription.subscribe", { channels: ["values"] }));
    await send("subscription.subscribe", { channels: ["messages"] });
    assert.deepEqual((await send("subscription.unsubscribe", { subscription_id: values })).result, {});
    events.add(event(1, "values"), event(2, "messages"));
    await until(() => seqs().at(-1) === 2);
    assert.deepEqual(seqs(), [2]);
    const again = await send("subscription.unsubscribe", { subscription_id: values });
    assert.deepEqual([again.error, again.message], ["no_such_subscription", `Unknown subscription: ${values}`]);
    assert.equal((await send("subscription.unsubscribe")).error, "no_such_subscription");
    // JSON.stringify fails for this value.
    const noText = { subscription_id: { toString: 1 } };
    assert.equal((await send("subscription.unsubscribe", noText)).error, "no_such_subscription");
  });

  it("refuses filters with an unknown channel or none", async () => {
    const readFilter = (): never => {
      throw new ServiceError("invalid", "since: must be an integer");
    };
    const { send, events } = world({ readFilter });
    for (const channels of [undefined, [], "values"]) {
      const answer = await send("subscription.subscribe", channels === undefined ? {} : { channels });
      assert.deepEqual(
        [answer.error, answer.message],
        ["invalid_argument", "subscription.subscribe requires a non-empty channels array."],
      );
    }
    const unknown = await send("subscription.subscribe", { channels: ["values", "nonsense"] });
    assert.equal(unknown.message, "subscription.subscribe received an unsupported channel.");
    const since = await send("subscription.subscribe", { channels: ["values"], since: "x" });
    assert.deepEqual([since.error, since.message], ["invalid_argument", "since: must be an integer"]);
    assert.deepEqual(events.subscriptions.at(-1)?.filter.channels, []);
  });

  it("accepts at most 100 subscriptions", async () => {
    const { send } = world();
    for (let count = 0; count < 100; count++) await send("subscription.subscribe", { channels: ["values"] });
    const answer = await send("subscription.subscribe", { channels: ["values"] });
    assert.equal(answer.error, "invalid_argument");
  });

  it("accepts at most 1,000 namespaces in all subscriptions", async () => {
    const { send } = world({ max_bytes: 10_000 });
    const namespaces = Array.from({ length: 600 }, (_, i) => [`n:${i}`]);
    const first = await send("subscription.subscribe", { channels: ["values"], namespaces });
    const second = await send("subscription.subscribe", { channels: ["values"], namespaces });
    assert.deepEqual([first.type, second.error], ["success", "invalid_argument"]);
    await send("subscription.unsubscribe", { subscription_id: readSubscriptionId(first) });
    assert.equal((await send("subscription.subscribe", { channels: ["values"], namespaces })).type, "success");
  });

  it("executes other commands one after another", async () => {
    const { send, commands, session, sentMessages } = world();
    assert.deepEqual(await send("state.get", { namespace: [] }), {
      ...{ type: "success", id: 1, result: { method: "state.get" }, meta: { thread_id: THREAD } },
    });
    session.onMessage('{"id": 8, "method": "run.start"}');
    session.onMessage('{"id": 9, "method": "agent.getTree"}');
    await until(() => sentMessages.length === 3);
    assert.deepEqual(commands, ["state.get", "run.start", "agent.getTree"]);
    assert.deepEqual(
      sentMessages.map(({ id }) => id),
      [1, 8, 9],
    );
  });

  it("responds with an error to frames that are no commands", async () => {
    const { session, sentMessages, closed } = world();
    for (const text of ["{", '"x"', "null", "[]", '{"id":1}', '{"id":"1","method":"x"}', '{"id":-1,"method":"x"}']) {
      session.onMessage(text);
    }
    await until(() => sentMessages.length === 7);
    assert.deepEqual(sentMessages[0], {
      ...{ type: "error", id: null, error: "invalid_argument" },
      message: "Protocol commands must be valid JSON.",
    });
    for (const answer of sentMessages.slice(1)) {
      assert.deepEqual(answer, {
        ...{ type: "error", id: null, error: "invalid_argument" },
        message: "Protocol commands must include an integer id and string method.",
      });
    }
    assert.deepEqual(closed, []);
  });

  it("closes on large and binary frames", async () => {
    for (const [data, code] of [
      ["x".repeat(1_001), 1009],
      ["ä".repeat(501), 1009],
      [new Uint8Array(3), 1003],
    ] as const) {
      const { session, closed, events } = world();
      session.onMessage(data);
      assert.equal(closed[0]?.[0], code);
      await until(() => events.open === 0);
      session.onMessage("{}");
      assert.equal(closed.length, 1);
    }
  });

  it("closes when too many commands wait", async () => {
    const never = new Promise<CommandResponse>(() => {});
    const { session, closed } = world({}, () => never);
    for (let id = 0; id < 101; id++) session.onMessage(JSON.stringify({ id, method: "run.start" }));
    assert.equal(closed[0]?.[0], 4429);
  });

  it("hides internal errors", async () => {
    const errors: Record<string, Error> = {
      a: new ServiceError("forbidden", "Forbidden"),
      b: new ServiceError("not_found", "Thread not found"),
      c: new ServiceError("unavailable", "The server is stopping"),
      d: new TypeError("secret"),
    };
    const { send, log, closed } = world({}, async ({ method }) => {
      throw errors[method];
    });
    const answers = [];
    for (const method of "abcd") answers.push(await send(method));
    assert.deepEqual(
      answers.map(({ error, message }) => [error, message]),
      [
        ["permission_denied", "Forbidden"],
        ["no_such_run", "Thread not found"],
        ["unknown_error", "The server is stopping"],
        ["unknown_error", "Internal server error"],
      ],
    );
    assert.equal(log.length, 1);
    assert.deepEqual(closed, []);
  });

  it("closes when the credential expires", async () => {
    const command = world({}, async () => {
      throw new ServiceError("unauthenticated", "revoked");
    });
    command.session.onMessage('{"id":1,"method":"run.start"}');
    await until(() => command.closed.length === 1);
    assert.equal(command.closed[0]?.[0], 4401);
    for (const [code, closed] of [
      ["unauthenticated", 4401],
      ["forbidden", 4403],
      ["not_found", 4404],
    ] as const) {
      const again = async (): Promise<never> => {
        throw new ServiceError(code, "lost");
      };
      const idle = world({ again });
      idle.elapse(2_000);
      await until(() => idle.closed.length === 1);
      assert.equal(idle.closed[0]?.[0], closed);
    }
    const narrowed = world({ again: async () => ({ filter: [] }) });
    narrowed.elapse(2_000);
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(narrowed.closed, [], "it sees the same");
    const again = async () => ({ filter: [{ key: "owner", equals: "ann" }] });
    const otherWorld = world({ again });
    otherWorld.elapse(2_000);
    await until(() => otherWorld.closed.length === 1);
    assert.equal(otherWorld.closed[0]?.[0], 4403);
    const failing = world({ again: () => Promise.reject(new Error("no storage")) });
    failing.elapse(2_000);
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(failing.closed, [], "a storage failure says nothing");
  });

  it("waits for room in the socket, and closes one that is never read", async () => {
    const { events, send, seqs, socket, elapse, closed } = world();
    await send("subscription.subscribe", { channels: ["values"] });
    socket.bufferedAmount = 1024 * 1024;
    events.add(event(1, "values"), event(2, "values"));
    await until(() => events.subscriptions.length >= 2);
    for (let turn = 0; turn < 5; turn++) {
      elapse(20);
      await new Promise((resolve) => setImmediate(resolve));
    }
    assert.deepEqual(seqs(), []);
    socket.bufferedAmount = 0;
    await until(() => {
      elapse(20);
      return seqs().length === 2;
    });
    socket.bufferedAmount = 1024 * 1024;
    for (let beat = 0; beat < 7; beat++) elapse(5_000);
    assert.equal(closed[0]?.[0], 4408);
  });

  it("sends when other sessions leave room in the tick", async () => {
    const ticks: (() => void)[] = [];
    const sendBudget = createTickBudget({ defer: (fn) => void ticks.push(fn) }, 1);
    const { events, send, seqs } = world({ sendBudget });
    await send("subscription.subscribe", { channels: ["values"] });
    sendBudget.spend(1);
    events.add(event(1, "values"), event(2, "values"));
    await until(() => events.subscriptions.length >= 2);
    for (const count of [0, 1, 2]) {
      await until(() => seqs().length === count);
      ticks.splice(0).forEach((tick) => {
        tick();
      });
    }
    assert.deepEqual(seqs(), [1, 2]);
  });

  it("closes with 1001 when the events end, and with 4500 when they cannot be read", async () => {
    const ended = world();
    ended.events.end();
    await until(() => ended.closed.length === 1);
    assert.equal(ended.closed[0]?.[0], 1001);
    const failed = world();
    failed.events.subscribe = () => {
      throw new Error("disk");
    };
    failed.session.onMessage('{"id":1,"method":"subscription.subscribe","params":{"channels":["values"]}}');
    await until(() => failed.closed.length === 1);
    assert.equal(failed.closed[0]?.[0], 4500);
    assert.equal(failed.log.length, 1);
  });

  it("sends a named custom event to subscriptions of its name", async () => {
    const { events, send, sentMessages } = world();
    await send("subscription.subscribe", { channels: ["custom:notes"] });
    await send("subscription.subscribe", { channels: ["custom:other"] });
    const custom = (seq: number, name: string) => event(seq, "custom", { data: { name, payload: seq } });
    events.add(custom(1, "nobody"), custom(2, "notes"), custom(3, "other"));
    await until(() => sentMessages.at(-1)?.seq === 3);
    const names = sentMessages.flatMap((message) =>
      message.type === "event" ? [((message as unknown as ProtocolEvent).params.data as JsonObject).name] : [],
    );
    assert.deepEqual(names, ["notes", "other"]);
  });
});
