import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { judgeTypeErrors, parseTypeErrors } from "../../scripts/type-errors.ts";

const WRONG = `import { agent } from "greenroom";
// W1 a number: is not assignable
agent(() => 42);
// W2 a misspelt member: 'teir' does not exist
agent(({ context }) =>
  context.teir);
`;
const FILES = new Map([
  ["agents.right.ts", "export const a = 1;\n"],
  ["agents.wrong.ts", WRONG],
]);
const EXPECTED = [
  "agents.wrong.ts(3,1): error TS2345: Argument is not assignable",
  "agents.wrong.ts(6,3): error TS2339: A long error",
  "  whose last line says: Property 'teir' does not exist",
].join("\n");
const judge = (output: string, ignoresOtherFiles = false) =>
  judgeTypeErrors(FILES, parseTypeErrors(output), { ignoresOtherFiles });

describe("the judge of type tests", () => {
  it("accepts programs that all fail with the expected text", () => {
    assert.deepEqual(judge(EXPECTED), []);
  });

  it("reports a program that compiles", () => {
    assert.deepEqual(judge(EXPECTED.split("\n").slice(1).join("\n")), ["agents.wrong.ts:2: W1 a number: compiles"]);
  });

  it("reports a program that fails with another text", () => {
    const [problem, ...others] = judge(EXPECTED.replace("is not assignable", "cannot find name"));
    assert.match(
      problem ?? "",
      /^agents\.wrong\.ts:2: W1 a number: no error has the text "is not assignable": error TS2345/,
    );
    assert.deepEqual(others, []);
  });

  it("reports errors outside of the programs, and of the compiler itself", () => {
    const strays = [
      "agents.right.ts(1,1): error TS1: x",
      "agents.wrong.ts(1,1): error TS2: y",
      "error TS5023: Unknown compiler option",
      "../lib/mod.ts(5,1): error TS3: z",
    ];
    assert.deepEqual(judge([EXPECTED, ...strays].join("\n")), [
      "agents.right.ts:1: error TS1: x",
      "agents.wrong.ts:1: error TS2: y",
      "../lib/mod.ts:5: error TS3: z",
      ":0: error TS5023: Unknown compiler option",
    ]);
    assert.equal(judge([EXPECTED, ...strays].join("\n"), true).length, 3);
  });

  it("reports a file of wrong programs without a marker", () => {
    assert.deepEqual(judgeTypeErrors(new Map([["a.wrong.ts", "x\n"]]), []), ["a.wrong.ts: has no marked program"]);
  });
});
