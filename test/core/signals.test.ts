/** What is published about a verb that has succeeded, and who hears it. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Storage } from "../../lib/storage/mod.ts";
import { signalling } from "../../lib/storage/signalling.ts";
import type { SignalKind, Signals } from "../../lib/storage/signals.ts";
import { type Sent, turns, until, world } from "./webhook-world.ts";

type Published = (readonly [kind: SignalKind, id: string])[];

const SCOPE = { deployment: "d" };
const lease = { run_id: "r", thread_id: "t", token: "x" };
const made = (run_id: string, more: object = {}): object => ({
  run: { run_id, thread_id: "t", created_at: 5 },
  claimed: null,
  stopped: [],
  ...more,
});
const stopped = (run_id: string, kind: string): object => ({ run_id, thread_id: "t", kind });

/** A storage whose verbs give what the test says, and what was published meanwhile, without who has. */
function storageOf(answers: Readonly<Record<string, unknown>>): {
  readonly storage: Storage;
  readonly published: Published;
} {
  const published: Published = [];
  const signals: Signals = {
    publish: (kind, id) => void published.push([kind, id.replace(/@own$/, "")]),
    subscribe: () => () => {},
  };
  const verbs = Object.entries(answers).map(([name, answer]) => [
    name,
    async () => {
      if (answer instanceof Error) throw answer;
      return answer;
    },
  ]);
  const storage = { signals, single_process: false, ...Object.fromEntries(verbs) } as unknown as Storage;
  return { storage: signalling(storage, "own"), published };
}

/** Calls one verb and gives what it published, in order. */
async function publishedBy(name: keyof Storage, answer: unknown, ...args: readonly unknown[]): Promise<string[]> {
  const { storage, published } = storageOf({ [name]: answer });
  const verb = storage[name] as (...args: readonly unknown[]) => Promise<unknown>;
  const given = await verb(SCOPE, ...args).catch((error: unknown) => error);
  assert.equal(given, answer);
  return published.map(([kind, id]) => `${kind} ${id}`);
}

describe("a storage with signals", () => {
  it("is the same storage where it has none", () => {
    const plain = { single_process: true } as Storage;
    assert.equal(signalling(plain, "own"), plain);
  });

  it("tells of runs that were made", async () => {
    const created = (more: object = {}): object => ({ kind: "created", ...made("r", more) });
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
    const batch = { kind: "created", created: [made("r"), made("s", { claimed: {} })] };
    assert.deepEqual(await publishedBy("createRuns", batch, [request, request]), ["thread t", "thread t"]);
    assert.deepEqual(await publishedBy("fireCron", { kind: "fired", created: made("r") }, request), ["thread t"]);
    assert.deepEqual(await publishedBy("fireCron", { kind: "lost" }, request), []);
  });

  it("tells of runs that are to stop, or are gone", async () => {
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
    assert.deepEqual(await publishedBy("pruneThreads", ["t", "u"], ["t", "u", "v"]), ["thread t", "thread u"]);
    assert.deepEqual(await publishedBy("expireThreads", ["t"], 1, 1), ["thread t"]);
  });

  it("tells of what a run leaves, and of its end", async () => {
    const nothing = { checkpoints: [], writes: [] };
    assert.deepEqual(await publishedBy("saveProgress", true, lease, { ...nothing, frames: {} }), ["run r"]);
    assert.deepEqual(await publishedBy("saveProgress", false, lease, { ...nothing, frames: {} }), []);
    assert.deepEqual(await publishedBy("saveProgress", true, lease, nothing), []);
    const end = { has_side_effects: false };
    const over = ["run r", "thread t"];
    assert.deepEqual(await publishedBy("finishRun", { next: null }, lease, end), over);
    assert.deepEqual(await publishedBy("finishRun", null, lease, { waiting: true }), []);
    assert.deepEqual(await publishedBy("finishRun", { next: null }, lease, {}), [...over, "deliveries d"]);
    assert.deepEqual(await publishedBy("requeueRun", true, lease), ["work d"]);
    assert.deepEqual(await publishedBy("requeueRun", false, lease), []);
    assert.deepEqual(await publishedBy("releaseSlot", undefined, lease), ["work d"]);
    assert.deepEqual(await publishedBy("redeliver", true, "r"), ["deliveries d"]);
  });

  it("tells of a thread that was freed only where its next run may be left to others", async () => {
    const over = ["run r", "thread t"];
    const waiting = { has_side_effects: false, waiting: true };
    const next = (thread_id: string): object => ({ next: { lease: { thread_id } } });
    const asked = { ...waiting, next: {} };
    assert.deepEqual(await publishedBy("finishRun", { next: null }, lease, waiting), [...over, "work d"]);
    assert.deepEqual(await publishedBy("finishRun", { next: null }, lease, asked), over);
    assert.deepEqual(await publishedBy("finishRun", next("t"), lease, asked), over);
    assert.deepEqual(await publishedBy("finishRun", next("u"), lease, asked), [...over, "work d"]);
  });

  it("tells nothing of what has failed", async () => {
    const failure = new Error("the store cannot be reached");
    for (const verb of ["createRun", "stopRuns", "saveProgress", "finishRun", "releaseSlot", "deleteThread"] as const) {
      assert.deepEqual(await publishedBy(verb, failure, lease, {}), []);
    }
  });

  it("lets its service hear the others, and not itself", () => {
    const listeners = new Set<Parameters<Signals["subscribe"]>[0]>();
    const hub: Signals = {
      publish: (kind, id) => {
        for (const listener of listeners) listener.heard(kind, id);
      },
      subscribe(listener) {
        listeners.add(listener);
        return () => void listeners.delete(listener);
      },
    };
    const services = ["a", "b"].map((origin) => signalling({ signals: hub } as Storage, origin).signals as Signals);
    const heard: string[][] = [[], []];
    const ends = services.map((signals, i) =>
      signals.subscribe({
        heard: (kind, id) => void heard[i]?.push(`${kind} ${id}`),
        missed: () => void heard[i]?.push("missed"),
      }),
    );
    services[0]?.publish("work", "me@home");
    services[1]?.publish("run", "r");
    hub.publish("thread", "t");
    for (const listener of listeners) listener.missed();
    assert.deepEqual(heard, [
      ["run r", "thread t", "missed"],
      ["work me@home", "thread t", "missed"],
    ]);
    for (const end of ends) end();
    assert.equal(listeners.size, 0);
  });

  it("is in everything else the storage that it stands for", async () => {
    class Own {
      readonly #rows: string[] = ["row"];
      readonly single_process = false;
      readonly signals: Signals = { publish: () => {}, subscribe: () => () => {} };
      async getRun(): Promise<string | undefined> {
        return this.#rows[0];
      }
      async releaseSlot(): Promise<void> {
        this.#rows.pop();
      }
    }
    const storage = signalling(new Own() as unknown as Storage, "own");
    assert.equal(await storage.getRun(SCOPE, "r"), "row");
    await storage.releaseSlot(SCOPE, lease);
    assert.equal(await storage.getRun(SCOPE, "r"), undefined);
    assert.equal(storage.single_process, false);
    assert.equal(storage.now, undefined);
    assert.equal((storage as unknown as { toString(): string }).toString(), "[object Object]");
  });
});

describe("webhooks that another process has told of", () => {
  it("are left to it for a moment, and sent where it has not taken them", async () => {
    await using w = await world();
    const [one, other] = [w.open(), w.open()];
    await turns();
    await w.told("r1");
    one.wake();
    other.wake(true);
    await w.requests(1);
    w.jump(100);
    await turns();
    assert.deepEqual([one.counters().attempts, other.counters().attempts], [1, 0]);
    (w.sent[0] as Sent).answer(204);
    await until(() => one.counters().delivered === 1);
    await w.told("r2");
    other.wake(true);
    other.wake(true);
    await turns();
    assert.equal(other.counters().attempts, 0);
    w.jump(100);
    await w.requests(2);
    (w.sent[1] as Sent).answer(204);
    await until(() => other.counters().delivered === 1);
    assert.equal(one.counters().delivered, 1);
  });
});
