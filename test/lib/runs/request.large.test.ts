/** The work for a large request grows linearly, and limits apply where it cannot. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { CheckpointHandle, NewCheckpoint, StoredCheckpoint } from "../../../lib/executor/contract.ts";
import { recordedGraphState } from "../../../lib/executor/recorded-states.ts";
import { changeState } from "../../../lib/executor/state-changes.ts";
import type { JsonObject } from "../../../lib/json.ts";
import { buildRunTree } from "../../../lib/protocol/commands.ts";
import { serviceInternals } from "../../../lib/service.ts";
import type { SerializedEvent } from "../../../lib/streams/event-filter.ts";
import { testService } from "../../suite/kit.ts";

const members = (count: number): JsonObject =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, i]));
const createText = (count: number): string => JSON.stringify(members(count));

describe("a state above the limit of separately stored members", () => {
  it("is stored as one value, and as members again below the limit", async () => {
    const stored: StoredCheckpoint[] = [];
    const handle = {
      get: async () => stored.at(-1) ?? null,
      async put(checkpoint: NewCheckpoint) {
        stored.push({ ...checkpoint, run_id: null, writes: [], created_at: 1 } as StoredCheckpoint);
      },
    } as unknown as CheckpointHandle;
    await using kit = await testService({ agents: { graph: () => ({}) } });
    const { environment } = serviceInternals(kit.service);
    const put = async (values: JsonObject): Promise<JsonObject> => {
      const at = { thread_id: "t", ns: "" };
      const change = recordedGraphState.update as NonNullable<typeof recordedGraphState.update>;
      const { state } = await change(at, "graph", [[{ values, as_node: "graph" }]], handle, {
        metadata: {},
        environment,
      });
      return state.values as JsonObject;
    };
    assert.deepEqual(await put(members(1_001)), members(1_001));
    assert.equal(stored.at(-1)?.values.length, 1);
    stored.length = 0;
    assert.deepEqual(await put(members(1_000)), members(1_000));
    assert.equal(stored.at(-1)?.values.length, 1_000);
  });

  it("is the start state of a later run", async () => {
    await using kit = await testService({ agents: { graph: ({ state }) => ({ seen: Object.keys(state).length }) } });
    const { runs, threads } = kit.service;
    const { thread_id } = await threads.create();
    const run = async (input: JsonObject): Promise<JsonObject> => {
      const { result } = await runs.wait(thread_id, { assistant_id: "graph", input });
      return (await result) as JsonObject;
    };
    assert.equal((await run(members(2_000)))["seen"], 2_000);
    assert.equal((await run({ k0: "new" }))["seen"], 2_001);
    const { values } = await threads.state(thread_id);
    assert.deepEqual([(values as JsonObject)["k0"], (values as JsonObject)["k1999"]], ["new", 1_999]);
  });
});

describe("many updates of a state", () => {
  it("read each member as often as a single update", () => {
    const reads = (changes: number): number => {
      let count = 0;
      const values = new Proxy(members(50), {
        get(target, name, receiver) {
          count++;
          return Reflect.get(target, name, receiver);
        },
      });
      const update = Array.from({ length: changes }, (_, i) => ({ [`new${i}`]: i, k0: i }));
      const before = { values, next: [], tasks: [] };
      const changed = changeState(before, "graph", [{ values: update, as_node: "graph" }], () => "id");
      assert.equal(changed.values["k0"], changes - 1);
      assert.equal(Object.keys(changed.values).length, 50 + changes);
      return count;
    };
    assert.equal(reads(400), reads(100));
  });
});

describe("a body with too many values", () => {
  const post = async (kit: Awaited<ReturnType<typeof testService>>, path: string, body: string) => {
    const response = await kit.fetch(`http://x${path}`, { method: "POST", body });
    return [response.status, ((await response.json()) as { detail?: unknown }).detail];
  };
  const refused = "The body holds more than 20000 values. Send less at once, or raise http.max_body_values";

  it("is refused before it is parsed, wherever the values are", async () => {
    await using kit = await testService({ agents: { graph: () => ({}) } });
    const list = `[${"0,".repeat(20_000)}0]`;
    for (const body of [createText(20_001), `{"metadata":${createText(20_000)}}`, `{"a":${list}}`, list]) {
      assert.deepEqual(await post(kit, "/threads", body), [413, refused]);
    }
    // This is not JSON either, which the check does not find.
    assert.deepEqual(await post(kit, "/threads", ",".repeat(20_001)), [413, refused]);
    // Values inside of strings do not count, also if an escape is cut between two slices.
    for (const shift of [0, 1]) {
      const text = `{"unknown":"${"y".repeat(shift)}${'\\"'.repeat(300_000)}${",".repeat(30_000)}"}`;
      assert.equal((await post(kit, "/threads", text))[0], 200);
    }
  });

  it("is accepted with a higher limit", async () => {
    await using kit = await testService({ agents: { graph: () => ({}) }, http: { max_body_values: 30_000 } });
    assert.equal((await post(kit, "/threads", `{"unknown":${createText(29_000)}}`))[0], 200);
    assert.equal((await post(kit, "/threads", `{"unknown":${createText(31_000)}}`))[0], 413);
  });

  it("has a configurable maximum size", async () => {
    const text = (size: number): string => JSON.stringify({ unknown: "x".repeat(size) });
    await using kit = await testService({ agents: { graph: () => ({}) }, http: { max_body_bytes: 2_000 } });
    assert.equal((await post(kit, "/threads", text(1_900)))[0], 200);
    assert.deepEqual(await post(kit, "/threads", text(2_000)), [
      413,
      "The body is larger than 2000 bytes. Send less at once",
    ]);
  });

  it("with long lists is refused with their names", async () => {
    await using kit = await testService({ agents: { graph: () => ({}) } });
    const goto = Array.from({ length: 101 }, () => "graph");
    const run = { assistant_id: "graph", input: {} };
    for (const [path, body, detail] of [
      ["/runs/wait", { ...run, command: { goto } }, /^command.goto: .*at most 100/],
      ["/runs/batch", Array.from({ length: 101 }, () => run), /^body: must hold at most 100 runs/],
      ["/threads/search", { metadata: members(101) }, /^metadata: must hold at most 100 values/],
      ["/store/items/search", { namespace_prefix: [], filter: members(101) }, /^filter: must have at most 100 members/],
      ["/runs/wait", { ...run, assistant_id: "g".repeat(1_025) }, /^assistant_id: must have at most 1024 characters/],
    ] as const) {
      const [status, message] = await post(kit, path, JSON.stringify(body));
      assert.equal(status, 422, path);
      assert.match(String(message), detail);
    }
  });
});

// With the square of the size these take minutes, and else no second.
describe("commands of the event protocol with large requests", () => {
  it("input.respond with many long interrupt ids is refused", { timeout: 40_000 }, async () => {
    await using kit = await testService({ agents: { graph: () => ({}) } });
    const thread_id = crypto.randomUUID();
    const responses = Array.from({ length: 60_000 }, (_, i) => ({ interrupt_id: `${"i".repeat(700)}${10_000 + i}` }));
    const answer = await kit.service.threads.command(thread_id, {
      ...{ id: 1, method: "input.respond" },
      params: { responses },
    });
    assert.equal(answer.type === "error" && answer.error, "no_such_run");
  });

  it("agent.getTree returns all tasks of a graph with many", { timeout: 40_000 }, async () => {
    async function* events(): AsyncGenerator<SerializedEvent> {
      for (let seq = 0; seq <= 100_000; seq++) {
        const params = { namespace: seq === 0 ? [] : [`task:${seq}`], data: { event: "started" } };
        const id = seq === 0 ? "synth:r:0" : `${seq}`;
        const { namespace } = params;
        yield { seq, id, event: "lifecycle", namespace, name: undefined, data: JSON.stringify({ params }) };
      }
    }
    const tree = await buildRunTree(events());
    assert.equal((tree?.children as JsonObject[] | undefined)?.length, 100_000);
  });
});
