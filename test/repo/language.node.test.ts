/** The check of names and comments finds what is planted for it, and its limits hold. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { judgeLanguage } from "../../scripts/check-language.ts";
import { findFragment } from "../../scripts/fragments.ts";
import { measureLanguage } from "../../scripts/language.ts";
import { parseSource } from "../../scripts/sources.ts";

const LIMITS = {
  folders: { lib: { bareNames: 1, genericNames: 1, fragments: 3, nounPhrases: 3 } },
  tree: { functionsOf: 0, superlatives: 0, privateKeywords: 0, typesTwice: 0 },
};

/** Measures a tree of these files, and returns its findings as "line kind text". */
const findIn = (files: Readonly<Record<string, string>>): string[] =>
  measureLanguage(Object.entries(files).map(([path, text]) => parseSource(path, text))).findings.map(
    ({ line, kind, text }) => `${line} ${kind} ${text}`,
  );
/** Returns the titles of the limits that a tree of these files misses. */
const failuresIn = (files: Readonly<Record<string, string>>): readonly string[] =>
  judgeLanguage(measureLanguage(Object.entries(files).map(([path, text]) => parseSource(path, text))), LIMITS).failures;

describe("the check of names", () => {
  it("finds bare and generic names where they are declared, not where they are used", () => {
    const text = [
      "const seen = new Set();",
      "function load(one: string, data: string): string { return one + data + seen.size; }",
      "class C { #kept = 1; value = 2; its(): void {} }",
      "interface I { told: boolean }",
      "const { left, right: rest } = box;",
      "send({ sent: seen, own() {}, given: 1 });",
      "const seenIds = lists.map((other) => other.left);",
    ].join("\n");
    assert.deepEqual(findIn({ "lib/a.ts": text }), [
      "1 bareNames seen",
      "2 bareNames one",
      "2 genericNames data",
      "3 bareNames kept",
      "3 genericNames value",
      "3 bareNames its",
      "4 bareNames told",
      "5 bareNames left",
      "5 bareNames rest",
      "7 bareNames other",
    ]);
  });

  it("finds functions that end in Of, superlatives and the keyword private", () => {
    const text = [
      "const keyOf = (row: Row) => row.key;",
      "const isPartOf = true;",
      "interface I { nameOf: (id: string) => string; indexOf(id: string): number }",
      "const MOST_ROWS = 5;",
      "class C { private x = 1; #y = 2 }",
    ].join("\n");
    assert.deepEqual(findIn({ "lib/a.ts": text }), [
      "1 functionsOf keyOf",
      "3 functionsOf nameOf",
      "4 superlatives MOST_ROWS",
      "5 privateKeywords private x = 1;",
    ]);
  });

  it("finds an exported type that another file of the layer exports", () => {
    const files = {
      "lib/runs/a.ts": "export interface Part {}\nexport const Part = 1;",
      "lib/options.ts": "export type Part = string;",
      "lib/threads/a.ts": "export type Part = string;",
      "lib/runs/b.ts": "type Part = string;",
    };
    assert.deepEqual(findIn(files), ["1 typesTwice Part in options, runs", "1 typesTwice Part in options, runs"]);
  });
});

describe("the check of comments", () => {
  const judge = (comments: readonly string[], isOfFunction: boolean): string[] =>
    comments.filter((comment) => findFragment(comment, isOfFunction) !== null);

  it("finds comments without a subject and verb", () => {
    const fragments = [
      "Of runs that a worker has claimed.",
      "What the output of a test runner says: how many tests passed.",
      "Whether a runtime can run the file at all.",
      "For processes that are to import what is installed in the folder.",
      "One module for each block, named by page and line.",
      "The same, with large values.",
      "In the order of their names: those of a server are created together.",
      "Also while the person types.",
      "From the root to a checkpoint; to the newest by default.",
    ];
    assert.deepEqual(judge(fragments, false), fragments);
    const nounPhrases = ["The name of a node.", "Rows of a thread that has ended."];
    assert.deepEqual(judge(nounPhrases, true), nounPhrases);
  });

  it("ignores sentences, and nouns that explain a type or a field", () => {
    const sentences = [
      "Returns the runs of a thread.",
      "For each thread, returns the newest run.",
      "If the row is gone, the lease is lost.",
      "In a test the clock is virtual.",
      "Each list runs in order, and beside the others.",
      "Waits for the response to a claim.",
      "When the last lease ends, its lock is released.",
      "`done` ends the run.",
    ];
    assert.deepEqual(judge(sentences, true), []);
    assert.deepEqual(judge(["The maximum size of a frame, in bytes.", "Ids of runs."], false), []);
  });

  it("counts each doc comment once, and none that has only tags", () => {
    const text =
      "/** Of the file. */\n\n/** Of the function. */\nexport async function run(): Promise<void> {}\n/** @type {X} */\nlet x;\n";
    assert.deepEqual(findIn({ "bench/a.mjs": text }), ["1 fragments Of the file.", "3 fragments Of the function."]);
    assert.deepEqual([...measureLanguage([parseSource("bench/a.mjs", text)]).comments.values()], [2]);
  });
});

describe("the limits of names and comments", () => {
  const CLEAN = `/** Returns 1. */\nexport const one1 = (): number => 1;\n${"void 0;\n".repeat(998)}`;

  it("pass for a clean tree, and fail for an injected name and an injected fragment", () => {
    assert.deepEqual(failuresIn({ "lib/a.ts": CLEAN }), []);
    assert.deepEqual(failuresIn({ "lib/a.ts": `${CLEAN}const seen = 1;\n` }), []);
    assert.deepEqual(failuresIn({ "lib/a.ts": `${CLEAN}const seen = 1;\nconst its = 1;\n` }), [
      "lib: 2 names per 1,000 lines that are a participle or a pronoun, limit 1",
      "    lib/a.ts:1001 bareNames seen",
      "    lib/a.ts:1002 bareNames its",
    ]);
    assert.deepEqual(failuresIn({ "lib/a.ts": `${CLEAN}/** Of a run. */\nconst id = 1;\n` }), [
      "lib: 50 % of doc comments that begin without a subject and verb, limit 3",
      "    lib/a.ts:1001 fragments Of a run.",
    ]);
    assert.deepEqual(failuresIn({ "test/a.ts": "export const nameOf = (): string => '';\n" }), [
      "all: 1 functions with a name that ends in Of, limit 0",
      "    test/a.ts:1 functionsOf nameOf",
    ]);
  });
});
