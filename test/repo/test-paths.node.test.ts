import assert from "node:assert/strict";
import { existsSync, globSync, readFileSync } from "node:fs";
import { describe, it } from "node:test";

/** Returns the source file or folder that a test of `test/lib` or `test/adapters` names by its path; null if there is none. */
function findSource(file: string): string | null {
  const path = file.replace(/^test\//, "").replace(/\.test\.ts$/, "");
  const folder = path.slice(0, path.lastIndexOf("/"));
  // A topic and a runtime follow the name of the source.
  const [name = ""] = path.slice(folder.length + 1).split(".");
  if (name === "mod") return existsSync(folder) ? folder : null;
  return [`${folder}/${name}.ts`, `${folder}/${name}`].find((source) => existsSync(source)) ?? null;
}

describe("a test of lib or adapters", () => {
  it("has the path of a source file", () => {
    const files = globSync("test/{lib,adapters}/**/*.test.ts").map((file) => file.replaceAll("\\", "/"));
    assert.ok(files.length > 100);
    assert.deepEqual(files.filter((file) => findSource(file) === null).sort(), []);
  });

  it("is reported if it names no source file", () => {
    assert.equal(findSource("test/lib/engine/worker.clock.test.ts"), "lib/engine/worker.ts");
    assert.equal(findSource("test/lib/usage/mod.test.ts"), "lib/usage");
    assert.equal(findSource("test/lib/engine/nothing.test.ts"), null);
  });
});

describe("the index of behaviours in docs/contributing.md", () => {
  const page = readFileSync("docs/contributing.md", "utf8");
  const [, table = ""] = page.split(/^\| Behaviour \| Test and its title \| Function \|\n\|---\|---\|---\|\n/m);
  const rows = table.split("\n\n", 1)[0]?.trim().split("\n") ?? [];

  it("names test files and titles that exist", () => {
    assert.ok(rows.length >= 19 && rows.length <= 25, `${rows.length} rows`);
    for (const row of rows) {
      const tests = [...row.matchAll(/`(test\/[^`]+\.ts)`: "([^"]+)"/g)].map(([, file = "", title = ""]) => ({
        file,
        title,
      }));
      assert.equal(tests.length, row.match(/`test\//g)?.length, row);
      for (const { file, title } of tests) {
        assert.ok(existsSync(file), row);
        const titles = readFileSync(file, "utf8")
          .split("\n")
          .filter((line) => /^ *(?:it|test)\(/.test(line));
        assert.equal(titles.filter((line) => line.includes(title)).length, 1, `${file}: ${title}`);
      }
    }
  });

  it("names functions that exist", () => {
    for (const row of rows) {
      const [, name = "", file = ""] = /`(\w+)` of `([^`]+\.ts)` \|$/.exec(row) ?? [];
      assert.ok(existsSync(file), row);
      const definition = new RegExp(`(?:function|class|const) ${name}\\b|^ +(?:async )?${name}\\(`, "m");
      assert.match(readFileSync(file, "utf8"), definition, row);
    }
  });
});
