/** A WebSocket session queues messages while its client does not read, and limits large ones. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createBunSocket } from "../../../adapters/node/bun-socket.ts";
import { createSemaphore, createTickBudget } from "../../../lib/environment.ts";
import type { JsonObject } from "../../../lib/json.ts";
import { until } from "../../support/until.ts";
import { event } from "./protocol.harness.ts";
import { THREAD, world } from "./session.harness.ts";

const FULL = 1024 * 1024;
const tick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const command = (id: number): string => JSON.stringify({ id, method: "state.get" });
const readResponseIds = (messages: readonly JsonObject[]): unknown[] =>
  messages.flatMap(({ id }) => (id === undefined ? [] : [id]));

async function ticks(elapse: (ms: number) => void): Promise<void> {
  for (let count = 0; count < 10; count++) {
    elapse(20);
    await tick();
  }
}

describe("a WebSocket session whose client does not read", () => {
  it("delays a response until there is room, and executes no command after it", async () => {
    const { session, socket, sentMessages, commands, elapse } = world();
    socket.bufferedAmount = FULL;
    for (const id of [1, 2, 3]) session.onMessage(command(id));
    await ticks(elapse);
    assert.deepEqual([readResponseIds(sentMessages), commands], [[], ["state.get"]]);
    socket.bufferedAmount = 0;
    await until(() => {
      elapse(20);
      return sentMessages.length === 3;
    });
    assert.deepEqual(readResponseIds(sentMessages), [1, 2, 3]);
  });

  it("closes after more than 100 waiting commands", async () => {
    const { session, socket, closed, commands, elapse } = world();
    socket.bufferedAmount = FULL;
    for (let id = 1; id <= 50; id++) session.onMessage(command(id));
    await ticks(elapse);
    for (let id = 51; id <= 101; id++) session.onMessage(command(id));
    assert.equal(closed[0]?.[0], 4429);
    assert.equal(commands.length, 1);
  });

  it("sends a large message in parts when there is room, with nothing between them", async () => {
    const parts: string[] = [];
    const { events, send, session, socket, sentMessages, elapse } = world();
    await send("subscription.subscribe", { channels: ["values"] });
    let whole = "";
    const ends: boolean[] = [];
    Object.assign(socket, {
      sendPart(text: string, last: boolean) {
        parts.push(text);
        ends.push(last);
        whole += text;
        socket.bufferedAmount += text.length;
      },
    });
    const large = event(1, "values", { data: { text: "\u{1f600}".repeat(300_000) } });
    events.add(large);
    await until(() => {
      elapse(20);
      return parts.length > 0;
    });
    await ticks(elapse);
    session.onMessage(command(7));
    await ticks(elapse);
    assert.ok(socket.bufferedAmount < 2 * 256 * 1024, `${socket.bufferedAmount} wait in the socket`);
    assert.deepEqual(
      sentMessages.filter(({ id }) => id === 7),
      [],
      "an answer came between the parts",
    );
    await until(() => {
      socket.bufferedAmount = 0;
      elapse(20);
      return sentMessages.some(({ id }) => id === 7);
    });
    assert.equal(whole, large.data);
    assert.deepEqual([ends.indexOf(true), ends.length > 5], [ends.length - 1, true]);
    for (const part of parts) {
      assert.ok(part.length <= 64 * 1024 + 1);
      assert.ok(part.isWellFormed(), "a part cuts a character in two");
    }
  });

  it("shares the budget for whole messages with all sockets that cannot send parts", async () => {
    const largeMessageBudget = createSemaphore(500_000);
    const [stalled, sibling] = [world({ largeMessageBudget }), world({ largeMessageBudget })];
    const large = event(1, "values", { data: { text: "x".repeat(400_000) } });
    for (const { send, events, socket } of [stalled, sibling]) {
      await send("subscription.subscribe", { channels: ["values"] });
      const { send: write } = socket as unknown as { send(text: string): void };
      Object.assign(socket, {
        send(text: string) {
          write(text);
          socket.bufferedAmount += text.length;
        },
      });
      events.add(large);
      await until(() => events.subscriptions.length >= 2);
    }
    await until(() => {
      stalled.elapse(20);
      return stalled.seqs().length === 1;
    });
    await ticks(sibling.elapse);
    assert.deepEqual(sibling.seqs(), []);
    // Small messages need no share of the budget.
    sibling.session.onClose();
    stalled.socket.bufferedAmount = 0;
    const third = world({ largeMessageBudget });
    await third.send("subscription.subscribe", { channels: ["values"] });
    third.events.add(large);
    await until(() => {
      stalled.elapse(20);
      return third.seqs().length === 1;
    });
    assert.deepEqual(sibling.seqs(), []);
  });

  it("fails when its socket drops a message, as Bun reports", () => {
    const socket = createBunSocket();
    let result = 5;
    const opened = { data: socket, readyState: 1, send: () => result, close() {}, getBufferedAmount: () => 0 };
    socket.open(opened);
    socket.send("sent");
    result = -1;
    socket.send("buffered");
    result = 0;
    assert.throws(() => socket.send("dropped"), /dropped/);
    opened.readyState = 3;
    socket.send("closed meanwhile");
  });
});

describe("commands of several sockets", () => {
  it("take turns", async () => {
    const deferred: (() => void)[] = [];
    const commandBudget = createTickBudget({ defer: (fn) => void deferred.push(fn) }, 1);
    const [first, second] = [world({ commandBudget }), world({ commandBudget })];
    for (const id of [1, 2]) for (const { session } of [first, second]) session.onMessage(command(id));
    const counts: number[] = [];
    for (let at = 0; at < 4; at++) {
      for (let count = 0; count < 5; count++) await tick();
      counts.push(first.commands.length + second.commands.length);
      for (const go of deferred.splice(0)) go();
    }
    assert.deepEqual(counts, [1, 2, 3, 4]);
    await until(() => first.sentMessages.length + second.sentMessages.length === 4);
    assert.equal(first.sentMessages[0]?.meta && (first.sentMessages[0].meta as JsonObject).thread_id, THREAD);
  });
});
