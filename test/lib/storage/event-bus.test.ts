/** Storage operations that succeed publish signals to listeners in this process and in others. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type ChangeOrigin, createEventBus, type EventBus, publishChanges } from "../../../lib/storage/event-bus.ts";
import type { SignalKind, Signals, Storage } from "../../../lib/storage/mod.ts";
import { type Sent, ticks, until, world } from "../webhooks/webhooks.harness.ts";

type Published = (readonly [kind: SignalKind, id: string])[];

const SCOPE = { deployment: "d" };
const lease = { run_id: "r", thread_id: "t", token: "x" };
const createRunResult = (run_id: string, resultFields: object = {}): object => ({
  run: { run_id, thread_id: "t", created_at: 5 },
  claimed: null,
  stopped: [],
  ...resultFields,
});
const stopped = (run_id: string, kind: string): object => ({ run_id, thread_id: "t", kind });

const environment = { defer: (fn: () => void) => void setImmediate(fn) };

/** Creates a storage with fixed results. Records what is published to other processes and in this one. */
function createStorage(answers: Readonly<Record<string, unknown>>): {
  readonly storage: Storage;
  readonly published: Published;
  readonly here: Published;
} {
  const published: Published = [];
  const here: Published = [];
  const bus: EventBus = {
    ...createEventBus(undefined, "own", environment),
    publish(kind, id, to) {
      if (to !== "here") published.push([kind, id]);
      if (to !== "elsewhere") here.push([kind, id]);
    },
  };
  const verbs = Object.entries(answers).map(([name, answer]) => [
    name,
    async () => {
      if (answer instanceof Error) throw answer;
      return answer;
    },
  ]);
  const storage = { single_process: false, ...Object.fromEntries(verbs) } as unknown as Storage;
  return { storage: publishChanges(storage, bus), published, here };
}

/** Calls one operation and returns what it published to other processes, in order. */
async function publishedBy(name: keyof Storage, answer: unknown, ...args: readonly unknown[]): Promise<string[]> {
  return (await publishFrom(name, answer, ...args)).published;
}

async function publishFrom(
  name: keyof Storage,
  answer: unknown,
  ...args: readonly unknown[]
): Promise<Readonly<Record<"published" | "here", string[]>>> {
  const { storage, published, here } = createStorage({ [name]: answer });
  const verb = storage[name] as (...args: readonly unknown[]) => Promise<unknown>;
  const operationResult = await verb(SCOPE, ...args).catch((error: unknown) => error);
  assert.equal(operationResult, answer);
  const text = (list: Published): string[] => list.map(([kind, id]) => `${kind} ${id}`);
  return { published: text(published), here: text(here) };
}

/** Creates a bus and records what its listeners receive. */
function listening(signals?: Signals, origin = "own"): { readonly bus: EventBus; readonly heard: string[] } {
  const bus = createEventBus(signals, origin, environment);
  const heard: string[] = [];
  const hear =
    (name: string) =>
    (id: string | undefined, from: ChangeOrigin): void =>
      void heard.push(`${name} ${id ?? "?"} ${from}`);
  for (const kind of ["run", "work", "thread"] as const) bus.subscribe(kind, null, hear(kind));
  bus.subscribe("thread", "t", hear("that thread"));
  return { bus, heard };
}

describe("an event bus", () => {
  it("delivers local signals to its listeners once, later", async () => {
    const { bus, heard } = listening();
    bus.publish("thread", "t");
    bus.publish("thread", "t", "here");
    bus.publish("thread", "u");
    bus.publish("run", "r");
    bus.publish("run", "s", "elsewhere");
    assert.deepEqual(heard, []);
    await ticks();
    assert.deepEqual(heard, ["thread t here", "that thread t here", "thread u here", "run r here"]);
  });

  it("tells all listeners that anything may have changed, except those that have left", async () => {
    const { bus, heard } = listening();
    const leave = bus.subscribe("deliveries", "d", (id) => void heard.push(`deliveries ${id}`));
    leave();
    leave();
    bus.publish("deliveries", "d");
    await ticks();
    bus.notifyAll();
    const all = ["run ? unknown", "work ? unknown", "thread ? unknown", "that thread ? unknown"];
    assert.deepEqual(heard, all);
  });

  it("delivers signals of other processes, and not its own", async () => {
    const listeners = new Set<Parameters<Signals["subscribe"]>[0]>();
    const hub: Signals = {
      publish: (kind, id) => {
        for (const listener of listeners) listener.onSignal(kind, id);
      },
      subscribe(listener) {
        listeners.add(listener);
        return () => void listeners.delete(listener);
      },
    };
    const [first, second] = [listening(hub, "a"), listening(hub, "b")];
    first.bus.publish("work", "before");
    await ticks();
    for (const { bus, heard } of [first, second]) {
      heard.length = 0;
      bus.connect();
    }
    first.bus.publish("work", "me@home", "elsewhere");
    second.bus.publish("run", "r");
    first.bus.publish("run", "s", "here");
    hub.publish("thread", "t");
    await ticks();
    const thread = ["thread t elsewhere", "that thread t elsewhere"];
    assert.deepEqual(first.heard, ["run r elsewhere", ...thread, "run s here"]);
    assert.deepEqual(second.heard, ["work me@home elsewhere", ...thread, "run r here"]);
    first.heard.length = 0;
    for (const listener of listeners) listener.onGap();
    assert.equal(first.heard.length, 4);
    for (const { bus } of [first, second]) bus.close();
    assert.equal(listeners.size, 0);
    assert.equal(first.heard.length, 8, "a last time");
  });
});

describe("a storage with an event bus", () => {
  it("publishes created runs", async () => {
    const created = (resultFields: object = {}): object => ({ kind: "created", ...createRunResult("r", resultFields) });
    const request = { now: 5 };
    assert.deepEqual(await publishedBy("createRun", created(), request), ["thread t"]);
    assert.deepEqual(await publishedBy("createRun", created({ claimed: {} }), request), ["thread t"]);
    const evicting = created({ claimed: {}, stopped: [stopped("a", "flagged"), stopped("b", "deleted")] });
    assert.deepEqual(await publishedBy("createRun", evicting, request), ["thread t", "run a", "run b"]);
    const ended = created({ claimed: {}, stopped: [stopped("a", "ended")] });
    assert.deepEqual(await publishedBy("createRun", ended, request), ["thread t", "run a", "deliveries d"]);
    for (const kind of ["repeated", "stale", "thread_busy"]) {
      assert.deepEqual(await publishedBy("createRun", { kind }, request), []);
    }
    const batch = { kind: "created", created: [createRunResult("r"), createRunResult("s", { claimed: {} })] };
    assert.deepEqual(await publishedBy("createRuns", batch, [request, request]), ["thread t", "thread t"]);
    assert.deepEqual(await publishedBy("fireCron", { kind: "fired", created: createRunResult("r") }, request), [
      "thread t",
    ]);
    assert.deepEqual(await publishedBy("fireCron", { kind: "lost" }, request), []);
  });

  it("publishes stopped and deleted runs", async () => {
    const all = [stopped("a", "flagged"), stopped("b", "ended")];
    assert.deepEqual(await publishedBy("stopRuns", all), [
      "run a",
      "thread t",
      "run b",
      "thread t",
      "work d",
      "deliveries d",
    ]);
    assert.deepEqual(await publishedBy("stopRuns", []), []);
    assert.deepEqual(await publishedBy("deleteRun", "deleted", "t", "r"), ["run r", "thread t", "work d"]);
    assert.deepEqual(await publishedBy("deleteRun", "running", "t", "r"), []);
    assert.deepEqual(await publishedBy("deleteThread", true, "t"), ["thread t", "work d"]);
    assert.deepEqual(await publishedBy("deleteThread", false, "t"), []);
    assert.deepEqual(
      await publishedBy("pruneThreads", ["t", "u"], { thread_ids: ["t", "u", "v"], strategy: "delete" }, 1),
      ["thread t", "thread u"],
    );
    assert.deepEqual(await publishedBy("pruneThreads", ["t"], { max_expired: 1 }, 1), ["thread t"]);
  });

  it("publishes the output and the end of a run", async () => {
    const nothing = { checkpoints: [], writes: [] };
    assert.deepEqual(await publishedBy("saveProgress", true, lease, { ...nothing, frames: {} }), ["run r"]);
    assert.deepEqual(await publishedBy("saveProgress", false, lease, { ...nothing, frames: {} }), []);
    assert.deepEqual(await publishedBy("saveProgress", true, lease, nothing), []);
    const end = { features: [] };
    const over = ["run r", "thread t"];
    assert.deepEqual(await publishedBy("finishRun", { next: null }, lease, end), over);
    assert.deepEqual(await publishedBy("finishRun", null, lease, { has_waiting_runs: true }), []);
    assert.deepEqual(await publishedBy("finishRun", { next: null }, lease, {}), [...over, "deliveries d"]);
    assert.deepEqual(await publishedBy("requeueRun", true, lease), ["work d"]);
    assert.deepEqual(await publishedBy("requeueRun", false, lease), []);
    assert.deepEqual(await publishedBy("releaseThreadLock", undefined, lease), ["work d"]);
    assert.deepEqual(await publishedBy("redeliver", true, "r"), ["deliveries d"]);
  });

  it("publishes an unlocked thread only if others may claim its next run", async () => {
    const over = ["run r", "thread t"];
    const waiting = { features: [], has_waiting_runs: true };
    const next = (thread_id: string): object => ({ next: { lease: { thread_id } } });
    const waitingWithNext = { ...waiting, next: {} };
    assert.deepEqual(await publishedBy("finishRun", { next: null }, lease, waiting), [...over, "work d"]);
    assert.deepEqual(await publishedBy("finishRun", { next: null }, lease, waitingWithNext), over);
    assert.deepEqual(await publishedBy("finishRun", next("t"), lease, waitingWithNext), over);
    assert.deepEqual(await publishedBy("finishRun", next("u"), lease, waitingWithNext), [...over, "work d"]);
  });

  it("publishes nothing of failed operations", async () => {
    const failure = new Error("the store cannot be reached");
    for (const verb of [
      "createRun",
      "stopRuns",
      "saveProgress",
      "finishRun",
      "releaseThreadLock",
      "deleteThread",
    ] as const) {
      assert.deepEqual(await publishedBy(verb, failure, lease, {}), []);
    }
  });

  it("publishes locally only what no listener of this process shows or claims by itself", async () => {
    const progress = { checkpoints: [], writes: [], frames: {}, events: [] };
    assert.deepEqual((await publishFrom("saveProgress", true, lease, progress)).here, []);
    assert.deepEqual((await publishFrom("finishRun", { next: null }, lease, { has_waiting_runs: true })).here, [
      "thread t",
    ]);
    assert.deepEqual((await publishFrom("createRun", { kind: "created", ...createRunResult("r") }, {})).here, [
      "thread t",
    ]);
    assert.deepEqual((await publishFrom("releaseThreadLock", undefined, lease)).here, ["work d"]);
    assert.deepEqual((await publishFrom("deleteThread", true, "t")).here, ["thread t", "work d"]);
  });

  it("has all other members of the storage", async () => {
    class Own {
      readonly #rows: string[] = ["row"];
      readonly single_process = false;
      async getRun(): Promise<string | undefined> {
        return this.#rows[0];
      }
      async releaseThreadLock(): Promise<void> {
        this.#rows.pop();
      }
    }
    const bus = createEventBus(undefined, "own", environment);
    const storage = publishChanges(new Own() as unknown as Storage, bus);
    assert.equal(await storage.getRun(SCOPE, "r"), "row");
    await storage.releaseThreadLock(SCOPE, lease);
    assert.equal(await storage.getRun(SCOPE, "r"), undefined);
    assert.equal(storage.single_process, false);
    assert.equal(storage.now, undefined);
    assert.equal((storage as unknown as { toString(): string }).toString(), "[object Object]");
  });
});

describe("webhooks that another process has published", () => {
  it("are left to it for a moment, and then sent if it did not claim them", async () => {
    await using w = await world();
    const [first, second] = [w.open(), w.open()];
    await ticks();
    await w.endRunWithWebhook("r1");
    first.wake();
    second.wake("elsewhere");
    await w.requests(1);
    w.jump(100);
    await ticks();
    assert.deepEqual([first.counters().attempts, second.counters().attempts], [1, 0]);
    (w.sentRequests[0] as Sent).answer(204);
    await until(() => first.counters().delivered === 1);
    await w.endRunWithWebhook("r2");
    second.wake("elsewhere");
    second.wake("elsewhere");
    await ticks();
    assert.equal(second.counters().attempts, 0);
    w.jump(100);
    await w.requests(2);
    (w.sentRequests[1] as Sent).answer(204);
    await until(() => second.counters().delivered === 1);
    assert.equal(first.counters().delivered, 1);
  });
});
