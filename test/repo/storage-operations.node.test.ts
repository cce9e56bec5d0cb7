/** The comment of each storage operation is compared with the code: it can be missing, doubled, or name an unknown statement. */
import assert from "node:assert/strict";
import { resolve } from "node:path";
import { describe, it } from "node:test";
import { parseSource, readSources } from "../../scripts/sources.ts";
import { checkOperationNotes } from "../../scripts/storage-operations.ts";

const interfaces = parseSource(
  "lib/storage/runs.ts",
  "export interface RunStorage { getRun(): void; stopRun(): void; check(): void }",
);
const findProblems = (...texts: string[]): readonly string[] =>
  checkOperationNotes([interfaces, ...texts.map((text, i) => parseSource(`adapters/sql/${i}.ts`, text))]).problems;

const GET = "const read = 1;\nexport const verbs = {\n  /** @statements read */\n  getRun: () => read,\n";
const STOP =
  "  /**\n   * @statements read · mark\n   * @guards where it runs ·\n   *   where it is known.\n   */\n  async stopRun() { mark(); },\n";

describe("the comments of storage operations", () => {
  it("match the code", () => {
    const { notes, problems } = checkOperationNotes(readSources(resolve(".")));
    assert.deepEqual(problems, []);
    assert.ok(notes.length > 90);
  });

  it("are read with their statements and guards", () => {
    const { notes, problems } = checkOperationNotes([
      interfaces,
      parseSource("adapters/sql/runs.ts", `${GET}${STOP}};`),
    ]);
    assert.deepEqual(problems, []);
    assert.deepEqual(
      notes.map(({ operation, statements, guards }) => [operation, statements, guards]),
      [
        ["getRun", ["read"], ""],
        ["stopRun", ["read", "mark"], "where it runs · where it is known."],
      ],
    );
  });

  it("are reported if they are missing, doubled or of no operation", () => {
    assert.deepEqual(findProblems(`${GET}};`), ["stopRun: 0 comments with @statements in adapters/sql, not 1"]);
    assert.deepEqual(findProblems(`${GET}${STOP}};`, `${GET}};`), [
      "getRun: 2 comments with @statements in adapters/sql, not 1",
    ]);
    assert.deepEqual(findProblems(`${GET}${STOP}};`, "/** @statements go */\nfunction go() {}"), [
      "adapters/sql/1.ts: go is no operation of Storage",
    ]);
  });

  it("may name no statement that their file does not have", () => {
    assert.deepEqual(findProblems(`${GET}${STOP.replace("· mark", "· marks")}};`), [
      "adapters/sql/0.ts: stopRun names marks, which the file has not",
    ]);
  });
});
