/** What traces keep of values: nothing, references, or copies without secrets that `redact` has seen. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Json } from "../../../lib/json.ts";
import type { SpanValue } from "../../../lib/storage/spans.ts";
import { ContentKeeper, hashText, readContents, resolveValue } from "../../../lib/traces/content.ts";
import type { RedactedSpan } from "../../../lib/traces/options.ts";

const tool = { kind: "tool", name: "weather" } as const;
const ref: SpanValue = { ref: { checkpoint_id: "c", namespace: [] } };

type Options = ConstructorParameters<typeof ContentKeeper>[0];

const createKeeper = (options: Partial<Options> = {}): ContentKeeper =>
  new ContentKeeper({ content: "all", max_bytes: 1_000, redact: null, counters: { redact_failed: 0 }, ...options });

/** Returns the value of an output, as a reader of stored spans gets it. */
function keep(keeper: ContentKeeper, value: unknown): Json | undefined {
  const kept = keeper.keepValue(() => value, tool, "output");
  if (!kept || "ref" in kept) return undefined;
  const stored = JSON.parse(JSON.stringify(keeper.toStored(kept)));
  const contents = readContents(keeper.drain());
  assert.deepEqual(resolveValue(stored, contents), kept);
  return kept.value;
}

describe("values", () => {
  it("are not kept and not made unless copies are", () => {
    const make = (): never => assert.fail("made");
    const references = createKeeper({ content: "references" });
    assert.equal(references.keepValue(make, tool, "input"), undefined);
    assert.deepEqual(references.keepValue(ref, tool, "input"), ref);
    const none = createKeeper({ content: "none" });
    assert.equal(none.keepValue(make, tool, "input"), undefined);
    assert.equal(none.keepValue(ref, tool, "input"), undefined);
    assert.deepEqual(createKeeper().keepValue(ref, tool, "input"), ref);
  });

  it("with a reference are copied if copies are kept, else the reference alone is kept", () => {
    const recorded = { ...ref, copy: () => "marker" };
    const references = createKeeper({ content: "references" }).keepValue(recorded, tool, "input");
    assert.deepEqual(references, ref);
    assert.deepEqual(Object.keys(references ?? {}), ["ref"], "a sink must not get the function");
    assert.equal(createKeeper({ content: "none" }).keepValue(recorded, tool, "input"), undefined);
    assert.deepEqual(createKeeper().keepValue(recorded, tool, "input"), {
      value: "marker",
      bytes: 8,
      truncated: false,
    });
    assert.deepEqual(createKeeper().keepValue({ ...ref, copy: () => undefined }, tool, "input"), ref);
    const omitting = createKeeper({ redact: () => undefined });
    assert.equal(omitting.keepValue(recorded, tool, "input"), undefined);
  });

  it("are copied as they are at that time", () => {
    const value = { city: "Rome", days: [1, 2] };
    const keeper = createKeeper();
    const kept = keeper.keepValue(() => value, tool, "input");
    value.city = "Oslo";
    assert.deepEqual(kept, { value: { city: "Rome", days: [1, 2] }, bytes: 28, truncated: false });
  });

  it("have no secrets, at any depth", () => {
    const value = {
      api_key: "marker",
      headers: { Authorization: "marker", accept: "x" },
      list: [{ password: "marker" }],
    };
    assert.deepEqual(keep(createKeeper(), value), { headers: { accept: "x" }, list: [{}] });
  });

  it("are omitted if they cannot be copied or made", () => {
    const cycle: Record<string, unknown> = {};
    cycle["self"] = cycle;
    assert.equal(keep(createKeeper(), cycle), undefined);
    assert.equal(keep(createKeeper(), undefined), undefined);
    assert.equal(
      keep(createKeeper(), () => 1),
      undefined,
    );
    const failing = (): never => {
      throw new Error("no");
    };
    assert.equal(createKeeper().keepValue(failing, tool, "input"), undefined);
    assert.deepEqual(keep(createKeeper(), { big: 1n, bytes: new Uint8Array(3) }), {
      big: "1",
      bytes: { type: "file", mime: null, bytes: 3 },
    });
  });

  it("that nest deep, or have many members, never throw", () => {
    let deep: unknown = 1;
    for (let depth = 0; depth < 20_000; depth++) deep = { inner: deep };
    assert.equal(keep(createKeeper(), deep), undefined);
    const many = Object.fromEntries(Array.from({ length: 80_000 }, (_, n) => [`m${n}`, n]));
    const kept = createKeeper().keepValue(() => many, tool, "output");
    assert.ok(kept && "value" in kept && kept.truncated && String(kept.value).startsWith('{"m0":0,"m1":1'));
  });

  it("of 50 MB are cut without a copy of them", () => {
    const content = "é".repeat(25_000_000);
    const messages = [
      { role: "system", content: "Be kind" },
      { role: "user", content },
    ];
    const keeper = createKeeper({ max_bytes: 16_384 });
    const [prompt] = [keeper.keepValue(() => messages, tool, "input")];
    assert.ok(prompt && "value" in prompt);
    assert.equal(prompt.bytes, 50_000_000 + JSON.stringify([messages[0], { role: "user", content: "" }]).length);
    const [system, user] = prompt.value as { content: string }[];
    assert.equal(system?.content, "Be kind");
    assert.ok((user?.content.length ?? 0) > 4_000 && (user?.content.length ?? 0) < 8_192);
    const image = { type: "image", data: "A".repeat(50_000_000), mime_type: "image/png" };
    assert.deepEqual(keep(keeper, image), { type: "image", mime: "image/png", bytes: 37_500_000 });
    assert.ok(keeper.bytes < 20_000);
  });

  it("above the limit are cut, with their full size", () => {
    const kept = createKeeper({ max_bytes: 256 }).keepValue(() => "ä".repeat(300), tool, "input");
    assert.deepEqual(kept, { value: "ä".repeat(128), bytes: 602, truncated: true });
  });

  it("are stored once per run, messages one by one", () => {
    const keeper = createKeeper();
    const messages = ["a", "b", "c"].map((name) => ({ role: "user", content: name.repeat(100) }));
    const prompts = [messages.slice(0, 2), messages, { messages, topic: "x" }];
    const kept = prompts.map((prompt) => keeper.keepValue(() => prompt, tool, "input") as SpanValue);
    const byHash = readContents(keeper.drain());
    assert.deepEqual([...byHash.values()], messages);
    const resolved = kept.map((value) => resolveValue(keeper.toStored(value), byHash));
    assert.deepEqual(
      resolved.map((value) => "value" in value && value.value),
      prompts,
    );
    assert.deepEqual(keeper.drain(), []);
  });

  it("that are small share rows, because a database takes far longer for rows than for text", () => {
    const keeper = createKeeper({ max_bytes: 1_048_576 });
    const messages = Array.from({ length: 5_000 }, (_, n) => ({ role: "user", content: `message ${n}` }));
    const kept = keeper.keepValue(() => messages, tool, "input") as SpanValue;
    const stored = keeper.toStored(kept);
    const rows = keeper.drain();
    assert.ok(rows.length <= 7 && rows.every(({ json }) => json.length <= 61_440), `${rows.length} rows`);
    assert.equal(new Set(rows.map(({ hash }) => hash)).size, rows.length);
    assert.deepEqual(resolveValue(stored, readContents(rows)), kept);
    keeper.keepValue(() => [...messages, { role: "ai", content: "newest" }], tool, "input");
    assert.deepEqual([...readContents(keeper.drain()).values()], [{ role: "ai", content: "newest" }]);
    const other = createKeeper({ max_bytes: 1_048_576 });
    other.keepValue(() => messages.slice(0, 10), tool, "input");
    assert.ok(!rows.some(({ hash }) => hash === other.drain()[0]?.hash), "other rows have other hashes");
  });

  it("of one run have 64 times the limit at most; later ones are null", () => {
    const keeper = createKeeper({ max_bytes: 256 });
    const values = Array.from({ length: 70 }, (_, n) => keep(keeper, `${n}`.padEnd(250, "x")));
    assert.equal(values.filter((value) => value === null).length, 5);
    assert.ok(keeper.bytes <= 64 * 256);
    const later = createKeeper({ max_bytes: 256 });
    later.addEarlierBytes(64 * 256);
    assert.equal(keep(later, "anything"), null);
  });

  it("have hashes that differ where the values differ", () => {
    const hashes = Array.from({ length: 5_000 }, (_, n) => hashText(`value ${n}`));
    assert.equal(new Set(hashes).size, 5_000);
    assert.match(hashes[0] as string, /^[0-9a-f]{32}$/);
    assert.equal(hashText("value 0"), hashes[0]);
  });
});

describe("redact", () => {
  it("gets each value that is kept, and what it belongs to", () => {
    const calls: [Json, RedactedSpan][] = [];
    const redact = (value: Json, span: RedactedSpan): Json => {
      calls.push([value, { ...span }]);
      return "masked";
    };
    const keeper = createKeeper({ redact });
    assert.equal(keep(keeper, { city: "Rome" }), "masked");
    assert.deepEqual(keeper.keepError(new RangeError("no Rome"), tool), { type: "RangeError", message: "masked" });
    assert.equal(keeper.keepParams({ temperature: 1 }, tool), undefined);
    assert.deepEqual(calls, [
      [{ city: "Rome" }, { ...tool, member: "output" }],
      ["no Rome", { ...tool, member: "error.message" }],
      [{ temperature: 1 }, { ...tool, member: "params" }],
    ]);
  });

  it("sees a whole error message, of which 500 characters are kept", () => {
    let seen = "";
    const redact = (value: Json): Json => {
      seen = String(value);
      return seen.replace("secret", "***");
    };
    const message = `${"x".repeat(496)}secret`;
    assert.equal(createKeeper({ redact }).keepError(new Error(message), tool).message, `${"x".repeat(496)}***`);
    assert.equal(seen, message);
  });

  it("omits a value by undefined, by an error, a promise or no JSON, and counts all but the first", () => {
    const counters = { redact_failed: 0 };
    const results: (() => unknown)[] = [
      () => undefined,
      () => {
        throw new Error("no");
      },
      () => Promise.reject(new Error("no")),
      () => Promise.resolve("masked"),
      () => () => "masked",
      () => {
        const cycle: Record<string, unknown> = {};
        cycle["self"] = cycle;
        return cycle;
      },
    ];
    for (const result of results) {
      const redact = result as never;
      assert.equal(keep(createKeeper({ redact, counters }), "Rome"), undefined);
      assert.deepEqual(createKeeper({ redact, counters }).keepError(new Error("x"), tool), { type: "Error" });
      assert.equal(createKeeper({ redact, counters }).keepAttributes({ rows: 1 }, tool), undefined);
      assert.equal(createKeeper({ redact, counters }).keepParams({ seed: 1 }, tool), undefined);
    }
    assert.equal(counters.redact_failed, 4 * (results.length - 1));
  });
});

describe("errors", () => {
  it("keep their message only with copies", () => {
    const error = new TypeError("marker");
    assert.deepEqual(createKeeper({ content: "references" }).keepError(error, tool), { type: "TypeError" });
    assert.deepEqual(createKeeper({ content: "none" }).keepError(error, tool), { type: "TypeError" });
    assert.deepEqual(createKeeper().keepError(error, tool), { type: "TypeError", message: "marker" });
    assert.equal(createKeeper().keepError(new Error("x".repeat(900)), tool).message?.length, 500);
    assert.deepEqual(createKeeper().keepError("text", tool), { type: "Error", message: "text" });
    assert.deepEqual(createKeeper().keepError(null, tool), { type: "Error", message: "null" });
    const nameless = Object.assign(new Error("x"), { name: "" });
    assert.deepEqual(createKeeper().keepError(nameless, tool), { type: "Error", message: "x" });
  });

  it("may be anything that can be thrown", () => {
    const throwing = {
      get message(): string {
        throw new Error("no");
      },
    };
    const named = { message: "x", name: { toString: () => assert.fail("no name") } };
    for (const error of [Object.create(null), throwing, named, Symbol("s")])
      assert.equal(createKeeper().keepError(error, tool).type, "Error");
    const long = createKeeper().keepError(Object.assign(new Error("😀".repeat(400)), { name: "N".repeat(900) }), tool);
    assert.deepEqual([long.type.length, long.message], [200, "😀".repeat(250)]);
  });
});

describe("attributes", () => {
  it("are kept with copies only, without secrets, as many as fit", () => {
    for (const content of ["none", "references"] as const)
      assert.equal(createKeeper({ content }).keepAttributes({ region: "eu" }, tool), undefined);
    const keeper = createKeeper();
    assert.deepEqual(keeper.keepAttributes({ region: "eu", access_token: "marker" }, tool), { region: "eu" });
    const many = Object.fromEntries(Array.from({ length: 40 }, (_, n) => [`a${n}`, n]));
    assert.equal(Object.keys(keeper.keepAttributes(many, tool) ?? {}).length, 32);
    const long = Object.fromEntries(Array.from({ length: 10 }, (_, n) => [`a${n}`, "x".repeat(1_000)]));
    assert.equal(Object.keys(keeper.keepAttributes(long, tool) ?? {}).length, 4);
    assert.deepEqual(keeper.keepAttributes({ rows: Number.NaN, ok: true }, tool), { ok: true });
    assert.equal(keeper.keepAttributes({ rows: Number.NaN }, tool), undefined);
  });
});

describe("parameters", () => {
  const params = {
    ...{ temperature: 0.5, top_p: 1, top_k: 4, max_tokens: 9, seed: 1, frequency_penalty: 0.5, presence_penalty: 1 },
    ...{ reasoning_effort: "low", response_format: "json_schema", tools: ["weather"], stream: true },
  };

  it("that hold no text are always kept", () => {
    for (const content of ["none", "references", "all"] as const)
      assert.deepEqual(createKeeper({ content }).keepParams(params, tool), params);
  });

  it("with texts are kept with copies only", () => {
    const keeper = createKeeper({ content: "references" });
    const texts = {
      stop: ["marker"],
      tool_choice: "marker",
      reasoning_effort: "marker ".repeat(20),
      tools: ["weather"],
    };
    assert.deepEqual(keeper.keepParams(texts, tool), { tools: ["weather"] });
    assert.equal(keeper.keepParams({ stop: "marker" }, tool), undefined);
    assert.equal(keeper.keepParams({ temperature: { text: "marker" }, tools: [{ text: "marker" }] }, tool), undefined);
    assert.deepEqual(createKeeper().keepParams(texts, tool), texts);
    for (const tool_choice of ["auto", "any", "none", "required"])
      assert.deepEqual(keeper.keepParams({ tool_choice }, tool), { tool_choice });
    const choice = { tools: ["weather"], tool_choice: "weather" };
    assert.deepEqual(keeper.keepParams(choice, tool), choice);
  });

  it("have at most 1 KiB", () => {
    const keeper = createKeeper();
    assert.ok(JSON.stringify(keeper.keepParams({ stop: "x".repeat(3_000), seed: 1 }, tool)).length <= 1_024);
    assert.equal(keeper.keepParams(undefined, tool), undefined);
  });
});
