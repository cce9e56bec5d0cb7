import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { EVENT_METHODS } from "../../../lib/storage/mod.ts";
import { compileFilter, type EventFilter, isChannel, listMethods } from "../../../lib/streams/event-filter.ts";

const passes = (filter: EventFilter, namespace: readonly string[]): boolean =>
  compileFilter(filter)("values", namespace, undefined);

describe("channels", () => {
  test("match the method of their name, and no other", () => {
    for (const channel of ["values", "updates", "checkpoints", "messages", "tools", "lifecycle", "tasks"] as const) {
      const matches = compileFilter({ channels: [channel] });
      assert.deepEqual(
        EVENT_METHODS.filter((method) => matches(method, [], undefined)),
        [channel],
      );
    }
  });

  test("input matches both methods of interrupts", () => {
    assert.deepEqual([...listMethods({ channels: ["input"] })], ["input.requested", "input.answered"]);
    const matches = compileFilter({ channels: ["input"] });
    assert.ok(matches("input.requested", ["ask:1"], undefined));
    assert.ok(matches("input.answered", [], undefined));
    assert.ok(!matches("lifecycle", [], undefined));
  });

  test("custom matches all custom events, and custom:<name> those with the name", () => {
    const all = compileFilter({ channels: ["custom"] });
    assert.deepEqual(
      [undefined, "notes", ""].map((name) => all("custom", [], name)),
      [true, true, true],
    );
    const notes = compileFilter({ channels: ["custom:notes", "custom:a:b"] });
    assert.deepEqual(
      [undefined, "notes", "", "custom:notes", "a:b", "a"].map((name) => notes("custom", [], name)),
      [false, true, false, false, true, false],
    );
    const both = compileFilter({ channels: ["custom:notes", "custom"] });
    assert.ok(both("custom", [], undefined));
    assert.deepEqual([...listMethods({ channels: ["custom:notes"] })], ["custom"]);
  });

  test("unknown channels and an empty list match nothing", () => {
    for (const channels of [["nonsense"], ["input.requested"], ["custom.notes"], ["toString"], []]) {
      assert.deepEqual([...listMethods({ channels })], [], JSON.stringify(channels));
      const matches = compileFilter({ channels });
      assert.ok(EVENT_METHODS.every((method) => !matches(method, [], undefined)));
    }
  });

  test("isChannel returns true for the channels of the protocol", () => {
    assert.ok(["values", "input", "custom", "custom:notes", "custom:"].every(isChannel));
    assert.ok(!["", "input.requested", "nonsense", "customs", "toString"].some(isChannel));
  });
});

describe("namespaces", () => {
  const channels = ["values"];

  test("no namespace and an empty list match all events, whatever the depth", () => {
    for (const filter of [{ channels }, { channels, namespaces: [] }, { channels, namespaces: [], depth: 0 }]) {
      assert.ok(passes(filter, []));
      assert.ok(passes(filter, ["a:1", "b:2", "c:3"]));
    }
    assert.ok(passes({ channels, depth: 0 }, ["a:1"]));
  });

  test("the prefix of the root matches everything", () => {
    assert.ok(passes({ channels, namespaces: [[]] }, []));
    assert.ok(passes({ channels, namespaces: [[]] }, ["a:1", "b:2"]));
  });

  test("a segment without a task id matches all tasks of the node", () => {
    const filter = { channels, namespaces: [["research"]] };
    assert.ok(passes(filter, ["research:6f4c", "inner:9e28"]));
    assert.ok(passes(filter, ["research:other"]));
    assert.ok(passes(filter, ["research"]));
    assert.ok(!passes(filter, ["research2:6f4c"]));
    assert.ok(!passes(filter, ["re:6f4c"]));
    assert.ok(!passes(filter, []));
    assert.ok(!passes(filter, ["inner:9e28", "research:6f4c"]));
  });

  test("a segment with a task id matches that task only", () => {
    const filter = { channels, namespaces: [["research:x"]] };
    assert.ok(passes(filter, ["research:x"]));
    assert.ok(passes(filter, ["research:x", "inner:1"]));
    assert.ok(!passes(filter, ["research:xy"]));
    assert.ok(!passes(filter, ["research:y"]));
    assert.ok(!passes(filter, ["research"]));
  });

  test("the node is the text up to the first colon", () => {
    assert.ok(passes({ channels, namespaces: [["a"]] }, ["a:b:c"]));
    assert.ok(!passes({ channels, namespaces: [["a:b"]] }, ["a:b:c"]));
  });

  test("one matching prefix is enough", () => {
    const filter = { channels, namespaces: [["b:1", "c"], ["a"]] };
    assert.ok(passes(filter, ["a:1"]));
    assert.ok(passes(filter, ["b:1", "c:2"]));
    assert.ok(!passes(filter, ["b:1"]));
    assert.ok(!passes(filter, ["b:2", "c:2"]));
  });

  test("depth counts the segments after the prefix", () => {
    const root = (depth: number): EventFilter => ({ channels, namespaces: [[]], depth });
    assert.deepEqual(
      [[], ["a:1"], ["a:1", "b:2"]].map((namespace) => passes(root(0), namespace)),
      [true, false, false],
    );
    assert.deepEqual(
      [[], ["a:1"], ["a:1", "b:2"]].map((namespace) => passes(root(1), namespace)),
      [true, true, false],
    );
    const nested = { channels, namespaces: [["a"], ["b"]], depth: 1 };
    assert.ok(passes(nested, ["b:1", "c:2"]));
    assert.ok(!passes(nested, ["b:1", "c:2", "d:3"]));
  });

  test("channel and namespace must both match", () => {
    const matches = compileFilter({ channels: ["custom:notes"], namespaces: [["a"]], depth: 0 });
    assert.ok(matches("custom", ["a:1"], "notes"));
    assert.ok(!matches("custom", ["b:1"], "notes"));
    assert.ok(!matches("custom", ["a:1"], "other"));
    assert.ok(!matches("values", ["a:1"], "notes"));
  });
});
