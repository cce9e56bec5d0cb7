/** Documentation comments of the entry points. scripts/check-snippets.ts type-checks the examples. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { readApiDocs } from "../../scripts/api-docs.ts";
import { createTemporaryFolder } from "../support/programs.ts";

describe("exports", () => {
  it("have a sentence each, and functions an example", () => {
    const { examples, problems } = readApiDocs();
    assert.deepEqual(problems, []);
    assert.ok(examples.length >= 28 && examples.every(({ code }) => /\bimport\b.*"greenroom/.test(code)));
    using folder = createTemporaryFolder();
    const source = join(folder.path, "planted.ts");
    writeFileSync(source, "/** Says it. */\nexport function told(): void {}\nexport type Bare = string;\n");
    assert.deepEqual(readApiDocs([["./planted", source]]).problems, [
      "./planted: told has no @example",
      "./planted: Bare has no sentence",
    ]);
  });
});
