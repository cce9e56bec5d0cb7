import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ServiceError, type StoreIndex } from "../../../lib/mod.ts";
import { readTextsAtPath } from "../../../lib/store/mod.ts";
import { type TestService, type TestServiceOptions, testService } from "../../suite/kit.ts";

const open = (options: TestServiceOptions = {}): Promise<TestService> =>
  testService({ agents: { idle: async () => ({}) }, ...options });

/** Creates vectors from the words that a text has. Records each embedded text. */
function words(...vocabulary: string[]): { readonly index: StoreIndex; readonly embeddedTexts: string[][] } {
  const embeddedTexts: string[][] = [];
  return {
    embeddedTexts,
    index: {
      dims: vocabulary.length,
      async embed(texts) {
        embeddedTexts.push([...texts]);
        return texts.map((text) => vocabulary.map((word) => (text.includes(word) ? 1 : 0)));
      },
    },
  };
}

describe("semantic search", () => {
  it("requires an index", async () => {
    await using kit = await open();
    await assert.rejects(kit.service.store.search([], { query: "x" }), {
      code: "invalid",
      message: "Semantic search is not configured",
    });
    assert.deepEqual(await kit.service.store.search([], { query: "" }), []);
    await kit.service.store.put(["a"], "k", {}, { index: ["x"] });
  });

  it("ranks items by their nearest text", async () => {
    const { index } = words("cat", "dog", "sun");
    await using kit = await open({ store: { index } });
    const { store } = kit.service;
    await store.putMany([
      { namespace: ["a"], key: "both", value: { text: "cat and dog" } },
      { namespace: ["a"], key: "none", value: null },
      { namespace: ["a"], key: "cat", value: { text: "a cat", kind: "pet" } },
      { namespace: ["a"], key: "sun", value: { text: "sun" } },
    ]);
    await store.put(["a"], "hidden", { text: "cat" }, { index: false });
    await store.put(["b"], "far", { text: "cat" });
    const matches = await store.search(["a"], { query: "cat" });
    assert.deepEqual(
      matches.map(({ key, score }) => `${key} ${score?.toFixed(3)}`),
      ["cat 1.000", "both 0.707", "sun 0.000"],
    );
    assert.deepEqual(Object.keys(matches[0] as object).sort(), [
      "created_at",
      "key",
      "namespace",
      "score",
      "updated_at",
      "value",
    ]);
    const pets = await store.search([], { query: "cat", filter: { kind: "pet" } });
    assert.deepEqual(
      pets.map(({ key }) => key),
      ["cat"],
    );
    assert.equal((await store.search([], { query: "cat", limit: 1, offset: 1 })).length, 1);
    assert.ok((await store.search([])).every((item) => !("score" in item)));
    await store.delete(["a"], "cat");
    assert.equal((await store.search(["a"], { query: "cat" }))[0]?.key, "both");
  });

  it("embeds the fields of the put or of the index, once for each call", async () => {
    const { index, embeddedTexts } = words("cat");
    await using kit = await open({ store: { index: { ...index, fields: ["title", "parts[*].text"] } } });
    const { store } = kit.service;
    const value = { title: "t", parts: [{ text: "p0" }, { text: "t" }], more: { deep: "d" } };
    await store.put(["a"], "k", value);
    await store.put(["a"], "k", value, { index: ["more.deep", "$"] });
    await store.put(["a"], "k", { none: 1 });
    await store.putMany([
      { namespace: ["a"], key: "k", value: { title: "one" } },
      { namespace: ["a"], key: "l", value: null },
      { namespace: ["a"], key: "m", value: { title: "two" } },
    ]);
    await store.search([], { query: "q" });
    assert.deepEqual(embeddedTexts, [["t", "p0"], ["d", JSON.stringify(value, null, 2)], ["one", "two"], ["q"]]);
  });

  it("stores nothing if the embedder returns invalid vectors", async () => {
    const wrong: [unknown, RegExp][] = [
      [[], /must return a list of 1 vectors/],
      [null, /must return a list of 1 vectors/],
      [[[1], [1]], /must return a list of 1 vectors/],
      [[[1, 2, 3]], /vectors of length 2/],
      [["ab"], /vectors of length 2/],
      [[[1, Number.NaN]], /finite numbers/],
      [[[1, "2"]], /finite numbers/],
      [new Error("no network"), /no network/],
    ];
    for (const [query, message] of wrong) {
      const embed = async () => {
        if (query instanceof Error) throw query;
        return query as number[][];
      };
      await using kit = await open({ store: { index: { dims: 2, embed } } });
      const { store } = kit.service;
      await assert.rejects(
        store.put(["a"], "k", { text: "x" }),
        (error: Error) => !(error instanceof ServiceError) && message.test(error.message),
      );
      await assert.rejects(store.search([], { query: "x" }), message);
      assert.equal(await store.get(["a"], "k"), null);
    }
    const typed = { dims: 2, embed: async (texts: readonly string[]) => texts.map(() => new Float32Array([1, 0])) };
    await using kit = await open({ store: { index: typed as unknown as StoreIndex } });
    await kit.service.store.put(["a"], "k", {});
    assert.equal((await kit.service.store.search([], { query: "x" }))[0]?.score, 1);
  });

  it("reads texts by path as LangGraph does", () => {
    const value = {
      a: { b: "deep", "c.d": 1 },
      n: 5,
      f: false,
      z: null,
      list: [{ t: "x" }, { t: "y" }, "s"],
      m: [[1], [2]],
    };
    const at: [string, string[]][] = [
      ["a.b", ["deep"]],
      ["n", ["5"]],
      ["f", ["false"]],
      ["z", []],
      ["nothing", []],
      ["a.nothing.x", []],
      ["toString", []],
      ["list[0].t", ["x"]],
      ["list[-1]", ["s"]],
      ["list[9]", []],
      ["list[x]", []],
      ["list[*].t", ["x", "y"]],
      ["list.t", []],
      ["m[*][0]", ["1", "2"]],
      ["a.*", ["deep", "1"]],
      ["{n,a.b}", ["5", "deep"]],
      ["list[0]", [JSON.stringify({ t: "x" }, null, 2)]],
      ["$", [JSON.stringify(value, null, 2)]],
    ];
    for (const [path, texts] of at) assert.deepEqual(readTextsAtPath(value, path), texts, path);
  });
});
