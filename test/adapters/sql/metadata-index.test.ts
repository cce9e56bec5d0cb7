/** Checks the number and the size of the index entries of a row. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createIndexEntries, insertIndexEntries, replaceIndexEntries } from "../../../adapters/sql/metadata-index.ts";
import type { JsonObject } from "../../../lib/json.ts";

const createMembers = (count: number): JsonObject =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, i]));

/** Counts the characters that the statements of a row's index entries bind. */
function countBoundCharacters(count: number): { statements: number; characters: number } {
  const filled = replaceIndexEntries("thread", "d", "t", createMembers(count)).map((statement) =>
    statement.compileFor("sqlite"),
  );
  const values = filled.flatMap(({ args }) => args);
  return {
    statements: filled.length,
    characters: values.reduce<number>((sum, value) => sum + String(value).length, 0),
  };
}

describe("The index entries of a row", () => {
  it("take two statements, which bind four times as much for four times the metadata", () => {
    const [small, large] = [countBoundCharacters(200), countBoundCharacters(800)];
    assert.deepEqual([small.statements, large.statements], [2, 2]);
    assert.ok(large.characters < 5 * small.characters, `${small.characters}, ${large.characters}`);
  });

  it("are at most as many as the limit, and have the full path of a nested value", () => {
    assert.equal(createIndexEntries(createMembers(5_000), 9).length, 9);
    assert.deepEqual(
      createIndexEntries({ a: { b: [1] } }).map(([, , exact]) => exact),
      ['"a""b"[]:1'],
    );
  });

  it("are rejected above 1000 values and above 1 MiB of metadata", () => {
    assert.doesNotThrow(() => insertIndexEntries("thread", "d", "t", createMembers(1_000)));
    assert.throws(
      () => insertIndexEntries("thread", "d", "t", createMembers(1_001)),
      /metadata: must contain at most 1000 different values/,
    );
    assert.throws(
      () => insertIndexEntries("cron", "d", "c", { a: "x".repeat(1024 * 1024) }),
      /metadata: must be at most 1048576/,
    );
  });
});
