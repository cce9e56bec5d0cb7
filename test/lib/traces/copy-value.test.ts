/** Values of agents are copied as JSON would, measured and written in part, however long, deep or odd they are. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Json } from "../../../lib/json.ts";
import { copyValue, measureJson, writeStart } from "../../../lib/traces/copy-value.ts";
import { countBytes } from "../../../lib/traces/truncation.ts";

const JSON_VALUES: readonly Json[] = [
  ...[null, true, false, 0, -1.5, 1e21, 1e-7, "", "plain", 'quoted " and \\', "\b\t\n\f\r\v\0\u001f\u007f"],
  ...["äöü", "漢字 €", "a😀b", "\ud800 alone \udc00", "\udc00\ud800", "\ud83d"],
  ...[[], {}, [[], {}, [1, "two", null]], { a: 1, "ä\n": { b: [true] } }],
];

describe("a copy", () => {
  it("is what JSON makes of the value, and is no part of it", () => {
    const nested = { list: [1, undefined, () => 1, Number.NaN, { a: undefined, b: Symbol("s") }], at: new Date(0) };
    const prototypeKey = JSON.parse('{"__proto__": {"polluted": true}, "constructor": 1}');
    for (const value of [...JSON_VALUES, nested, prototypeKey, Object.create(null), new Map([[1, 2]])]) {
      const copied = copyValue(value);
      assert.deepEqual(copied, { json: JSON.parse(JSON.stringify(value)), isPartial: false });
      if (typeof value === "object" && value !== null) assert.notEqual(copied?.json, value);
    }
    assert.equal(({} as { polluted?: boolean }).polluted, undefined);
    const copied = copyValue(nested)?.json as { list: unknown[] };
    nested.list.push(2);
    assert.equal(copied.list.length, 5);
  });

  it("has texts for bigints, and the size in place of bytes", () => {
    const bytes = { type: "file", mime: null, bytes: 8 };
    const value = [10n, new Uint8Array(8), new Float64Array(1), new ArrayBuffer(8), Buffer.alloc(8)];
    assert.deepEqual(copyValue(value)?.json, ["10", bytes, bytes, bytes, bytes]);
  });

  it("does not exist for a value without JSON, with a cycle, without an end, or that throws", () => {
    const cycle: Record<string, unknown> = {};
    cycle["list"] = [cycle, cycle];
    let deep: unknown = 1;
    for (let depth = 0; depth < 100_000; depth++) deep = [deep];
    const throwing = Object.defineProperty({}, "member", {
      enumerable: true,
      get: () => {
        throw new Error("no");
      },
    });
    const endless = { toJSON: (): unknown => ({ inner: endless }) };
    for (const value of [undefined, () => 1, Symbol("s"), cycle, deep, throwing, endless])
      assert.equal(copyValue(value), undefined);
    const twice = { a: 1 };
    assert.deepEqual(copyValue([twice, twice])?.json, [{ a: 1 }, { a: 1 }], "the same object twice is no cycle");
  });

  it("of too many values has the first ones", () => {
    const copied = copyValue({ list: Array.from({ length: 80_000 }, (_, index) => index), after: 1 });
    assert.equal(copied?.isPartial, true);
    const { list, after } = (copied?.json ?? {}) as { list: number[]; after?: number };
    assert.ok(list.length > 40_000 && list.length <= 50_000);
    assert.equal(list.at(-1), list.length - 1);
    assert.equal(after, undefined);
  });

  it("shares long texts", () => {
    const text = "x".repeat(1_000_000);
    const copied = copyValue({ text });
    assert.deepEqual(copied?.json, { text });
  });
});

describe("the size of JSON", () => {
  it("is that of its text in UTF-8", () => {
    for (const value of [...JSON_VALUES, [...JSON_VALUES]])
      assert.equal(measureJson(value), countBytes(JSON.stringify(value)), JSON.stringify(value));
  });

  it("is some number above the limit if it is above", () => {
    for (const value of [...JSON_VALUES, [...JSON_VALUES], { many: [...JSON_VALUES] }]) {
      const bytes = measureJson(value);
      for (let limit = 0; limit < bytes; limit++) assert.ok(measureJson(value, limit) > limit, `${limit} of ${bytes}`);
      for (const limit of [bytes, bytes + 1]) assert.equal(measureJson(value, limit), bytes);
    }
  });
});

describe("the start of JSON", () => {
  it("is that of its text, and little more", () => {
    const value: Json = { list: [...JSON_VALUES, [...JSON_VALUES]], after: "x".repeat(100), "\n": 1 };
    const text = JSON.stringify(value);
    for (let chars = 0; chars <= text.length + 1; chars++) {
      const start = writeStart(value, chars);
      assert.ok(start.length >= Math.min(chars, text.length));
      assert.equal(start.slice(0, chars), text.slice(0, chars));
    }
    assert.ok(writeStart(["x".repeat(1_000_000), 1, 2], 100).length < 200);
  });
});
