/** What stands beside each storage verb is compared with the code: it can be missing, doubled, or name what is not there. */
import assert from "node:assert/strict";
import { resolve } from "node:path";
import { describe, it } from "node:test";
import { parseSource, readSources } from "../../scripts/sources.ts";
import { verbNotes } from "../../scripts/verbs.ts";

const verbs = parseSource(
  "lib/storage/runs.ts",
  "export interface RunStorage { getRun(): void; stopRun(): void; check(): void }",
);
const problemsOf = (...texts: string[]): readonly string[] =>
  verbNotes([verbs, ...texts.map((text, i) => parseSource(`adapters/sql/${i}.ts`, text))]).problems;

const GET = "const read = 1;\nexport const verbs = {\n  /** @statements read */\n  getRun: () => read,\n";
const STOP =
  "  /**\n   * @statements read · mark\n   * @guards where it runs ·\n   *   where it is known.\n   */\n  async stopRun() { mark(); },\n";

describe("the notes beside storage verbs", () => {
  it("fit the code", () => {
    const { notes, problems } = verbNotes(readSources(resolve(".")));
    assert.deepEqual(problems, []);
    assert.ok(notes.length > 90);
  });

  it("are read with their statements and guards", () => {
    const { notes, problems } = verbNotes([verbs, parseSource("adapters/sql/runs.ts", `${GET}${STOP}};`)]);
    assert.deepEqual(problems, []);
    assert.deepEqual(
      notes.map(({ verb, statements, guards }) => [verb, statements, guards]),
      [
        ["getRun", ["read"], ""],
        ["stopRun", ["read", "mark"], "where it runs · where it is known."],
      ],
    );
  });

  it("are missed, found twice, or of no verb", () => {
    assert.deepEqual(problemsOf(`${GET}};`), ["stopRun: 0 comments with @statements in adapters/sql, not 1"]);
    assert.deepEqual(problemsOf(`${GET}${STOP}};`, `${GET}};`), [
      "getRun: 2 comments with @statements in adapters/sql, not 1",
    ]);
    assert.deepEqual(problemsOf(`${GET}${STOP}};`, "/** @statements go */\nfunction go() {}"), [
      "adapters/sql/1.ts: go is no verb of Storage",
    ]);
  });

  it("may name no statement that their file has not", () => {
    assert.deepEqual(problemsOf(`${GET}${STOP.replace("· mark", "· marks")}};`), [
      "adapters/sql/0.ts: stopRun names marks, which the file has not",
    ]);
  });
});
