/** Lists that are sent while they are made: their readers lose the permission, read slowly or not at all, or the database fails. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { owning } from "../lib/auth/custom-auth.harness.ts";
import { type TestClock, type TestService, testClock } from "../suite/kit.ts";
import { advanceUntil, createClockedService, createFaultyStorage, type Faulty } from "../support/faulty.ts";
import { post, Rooms, startRun } from "./open-streams.ts";

const LARGE = 400_000;
const ann = { authorization: "Bearer ann" };

interface World extends AsyncDisposable {
  readonly at: TestService;
  readonly clock: TestClock;
  readonly rooms: Rooms;
  readonly faults: Faulty["faults"];
  readonly refused: Set<string>;
}

/** Ann has some threads with large states. `also` makes others after these. */
async function world(also: (at: TestService) => Promise<unknown> = async () => {}): Promise<World> {
  const [clock, rooms, refused] = [testClock(), new Rooms(), new Set<string>()];
  const { storage, faults } = createFaultyStorage();
  const at = await createClockedService(clock, {
    storage,
    agents: { agent: rooms.agent },
    environment: clock,
    auth: {
      custom: {
        authenticate: ({ headers }) => (headers.get("authorization") ?? "").slice(7),
        on: { "*": (context) => !refused.has(context.user.identity) && owning(context) },
      },
    },
  });
  for (let n = 0; n < 4; n += 1) {
    const updates = [{ as_node: "agent", values: { data: "x".repeat(LARGE) } }];
    await post(at, ann, "/threads", { metadata: { graph_id: "agent" }, supersteps: [{ updates }] });
  }
  await also(at);
  return { at, clock, rooms, faults, refused, [Symbol.asyncDispose]: () => at[Symbol.asyncDispose]() };
}

interface Reading {
  /** Reads one chunk. */
  read(): Promise<boolean>;
  /** Reads until the end. Rejects where the list breaks off. */
  readRemaining(): Promise<unknown>;
  text(): string;
}

async function search({ fetch }: TestService): Promise<Reading> {
  const body = JSON.stringify({ limit: 100, sort_by: "created_at", sort_order: "asc", select: ["values"] });
  const headers = { ...ann, "content-type": "application/json" };
  const response = await fetch("http://greenroom/threads/search", { method: "POST", headers, body });
  assert.equal(response.status, 200);
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const decoder = new TextDecoder();
  let text = "";
  async function read(): Promise<boolean> {
    const { done, value } = await reader.read();
    text += decoder.decode(value);
    return !done;
  }
  return {
    read,
    text: () => text,
    async readRemaining() {
      while (await read());
      return JSON.parse(text);
    },
  };
}

describe("a streamed list", () => {
  it("aborts when its caller loses the permission", async () => {
    let room = "";
    await using it = await world(async (at) => {
      room = (await startRun(at, ann)).thread_id;
    });
    const list = await search(it.at);
    await list.read();
    it.refused.add("ann");
    await it.clock.advance(3_000);
    it.rooms.say(room, "said afterwards");
    await it.clock.advance(1_000);
    await assert.rejects(list.readRemaining());
    assert.doesNotMatch(list.text(), /said afterwards/);
  });

  it("aborts after its reader has stalled for 15 s", async () => {
    await using it = await world();
    const list = await search(it.at);
    await list.read();
    await it.clock.advance(14_000);
    await list.read();
    await it.clock.advance(16_000);
    await assert.rejects(list.readRemaining(), /does not read/);
  });

  it("continues while its reader is slow", async () => {
    await using it = await world();
    const list = await search(it.at);
    for (let n = 0; n < 20; n += 1) {
      await list.read();
      await it.clock.advance(10_000);
    }
    assert.equal(((await list.readRemaining()) as unknown[]).length, 4);
  });

  it("aborts and logs when the database fails", async () => {
    await using it = await world();
    const list = await search(it.at);
    await list.read();
    it.faults.getCheckpoint = () => Promise.reject(new Error("The disk is gone"));
    await assert.rejects(list.readRemaining());
    await advanceUntil(it.clock, () => it.at.log.some(({ message }) => message === "Reading a list failed"));
  });

  it("stops reading when its client disconnects", async () => {
    await using it = await world();
    const { fetch } = it.at;
    let reads = 0;
    it.faults.getCheckpoint = (call) => {
      reads += 1;
      return call();
    };
    const headers = { ...ann, "content-type": "application/json" };
    const response = await fetch("http://greenroom/threads/search", { method: "POST", headers, body: "{}" });
    const before = reads;
    await response.body?.cancel();
    await it.clock.advance(1_000);
    assert.ok(reads <= before + 1, `${reads - before} states`);
    assert.equal(it.at.log.filter(({ level }) => level === "error").length, 0);
  });
});
