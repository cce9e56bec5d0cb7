import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import { findCasts, judgeCasts, readCodeBlocks } from "../../scripts/casts.ts";

const find = (code: string, language: "ts" | "tsx" = "ts"): string[] =>
  findCasts({ path: "a", line: 1, language, code }).map((cast) => `${cast.line} ${cast.kind}: ${cast.code}`);

/** Runs the check in a copy of what it reads, and returns what it prints and its exit code. */
function checkCopy(change: (folder: string) => void): { readonly output: string; readonly code: number | null } {
  const folder = mkdtempSync(join(tmpdir(), "greenroom-casts-"));
  try {
    for (const path of ["README.md", "docs", "templates", "examples"]) {
      cpSync(path, join(folder, path), { recursive: true });
    }
    for (const path of [
      "lib",
      "adapters",
      "test",
      "scripts",
      "node_modules",
      "jsr.json",
      "tsconfig.json",
      "server.ts",
    ]) {
      symlinkSync(resolve(path), join(folder, path));
    }
    change(folder);
    const script = resolve("scripts/check-casts.ts");
    const { stdout, stderr, status } = spawnSync(process.execPath, [script], { cwd: folder, encoding: "utf8" });
    return { output: stdout + stderr, code: status };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

describe("casts", () => {
  it("finds as, both of two, and the old form of a type assertion", () => {
    assert.deepEqual(find("const a = b as string;\nconst c = (d as unknown) as E;\nconst f = <G>h;"), [
      "1 as: b as string",
      "2 as: (d as unknown) as E",
      "2 as: d as unknown",
      "3 as: <G>h",
    ]);
  });

  it("allows as const, satisfies and names that contain the words", () => {
    assert.deepEqual(find('const any = ["as", "any!"] as const satisfies string[]; use(any.as, !any, a !== b);'), []);
  });

  it("finds any as a type, ! behind a value and ! in a declaration", () => {
    assert.deepEqual(find("let a: any[];\na[0]!.b;\nlet c!: string;\nclass D { e!: F }"), [
      "1 any: any",
      "2 !: a[0]!",
      "3 !: c!: string",
      "4 !: e!: F",
    ]);
  });

  it("finds comments that turn the type checker off, between tokens and at the end, and no other text", () => {
    const code =
      '// @ts-nocheck\nconst a = "// @ts-ignore"; // that\'s /* fine */\ncall(\n  /* @ts-ignore */ a,\n);\n// @ts-expect-error';
    assert.deepEqual(find(code), [
      "1 @ts- comment: // @ts-nocheck",
      "4 @ts- comment: /* @ts-ignore */",
      "6 @ts- comment: // @ts-expect-error",
    ]);
    assert.deepEqual(find("<p>\n  {/* @ts-ignore */}\n  <a b={c as D} />\n</p>", "tsx"), [
      "2 @ts- comment: /* @ts-ignore */",
      "3 as: c as D",
    ]);
  });

  it("reads the blocks of a page with their lines, also in a list", () => {
    const page =
      "# Page\n\n```ts continued\nlet a!: b;\n```\n\n1. List\n\n   ```tsx\n   c as D\n   ```\n\n```sh\ne as f\n```\n";
    const casts = readCodeBlocks("page.md", page).flatMap(findCasts);
    assert.deepEqual(
      casts.map(({ path, line, code }) => `${path}:${line} ${code}`),
      ["page.md:4 a!: b", "page.md:10 c as D"],
    );
  });

  it("accepts a cast with an exception, and reports exceptions that nothing needs or that have no reason", () => {
    const casts = findCasts({ path: "a.ts", line: 1, language: "ts", code: "b as C;\nb as D;" });
    const exceptions = [
      { path: "a.ts", code: "b as C", reason: "b of the package b lacks the member c" },
      { path: "a.ts", code: "b as E", reason: "" },
    ];
    assert.deepEqual(judgeCasts(casts, exceptions), [
      "a.ts:2: as: b as D",
      'a.ts: the exception "b as E" is not needed: delete it',
      "a.ts: b as E: has no reason",
    ]);
  });

  it("fails for a cast in a template, an example or a page, and for nothing else of the tree", () => {
    const append = (path: string, code: string): void => writeFileSync(path, readFileSync(path, "utf8") + code);
    const { output, code } = checkCopy((folder) => {
      append(join(folder, "templates/react/web/main.tsx"), "root!;\n");
      append(join(folder, "examples/echo.ts"), "(app as any).stop();\n");
      append(join(folder, "docs/guides/agents.md"), "\n```ts\n// @ts-expect-error\n```\n");
    });
    assert.equal(code, 1, output);
    assert.match(output, /^templates\/react\/web\/main\.tsx:\d+: !: root!$/m);
    assert.match(output, /^examples\/echo\.ts:\d+: as: app as any$/m);
    assert.match(output, /^examples\/echo\.ts:\d+: any: any$/m);
    assert.match(output, /^docs\/guides\/agents\.md:\d+: @ts- comment: \/\/ @ts-expect-error$/m);
    assert.match(output, /: 4 casts$/m);
  });
});
