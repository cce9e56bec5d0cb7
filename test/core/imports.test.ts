import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join, posix, resolve } from "node:path";
import { describe, it } from "node:test";
import { importsOf, problemsOf, strip } from "./source-rules.ts";

const root = resolve(import.meta.dirname, "../..");
const read = (path: string): string => readFileSync(join(root, path), "utf8");
const sources = (folder: string): string[] =>
  readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .map((file) => `${folder}/${file.replaceAll("\\", "/")}`)
    .filter((file) => /\.tsx?$/.test(file));

describe("import rules", () => {
  it("hold in the tree", () => {
    const files = ["server.ts", ...["lib", "adapters", "examples", "test/suite"].flatMap(sources)];
    assert.ok(files.includes("lib/service.ts") && files.includes("adapters/sql/driver.ts"));
    assert.deepEqual(
      files.flatMap((file) => problemsOf(file, read(file))),
      [],
    );
  });

  it("notice a planted violation", () => {
    const planted: readonly (readonly [path: string, source: string])[] = [
      ["lib/engine/worker.ts", 'import { readFileSync } from "node:fs";'],
      ["lib/engine/worker.ts", 'import type { Kysely } from "kysely";'],
      ["lib/engine/worker.ts", 'import * as v from "valibot";'],
      ["lib/runs/mod.ts", 'export { sseBody } from "../http/sse.ts";'],
      ["lib/options.ts", 'import { httpSchema } from "./http/options.ts";'],
      ["lib/threads/mod.ts", 'import { createRuns } from "../runs/mod.ts";'],
      ["lib/assistants/mod.ts", 'import { x } from "../engine/worker.ts";'],
      ["lib/functions/call.ts", 'import { x } from "../store/mod.ts";'],
      ["lib/storage/mod.ts", 'import type { Job } from "../executor/contract.ts";'],
      ["lib/errors.ts", 'import { isObject } from "./json.ts";'],
      ["lib/runs/mod.ts", 'import { x } from "../elsewhere/mod.ts";'],
      ["lib/threads/change.ts", 'const x = await import("../runs/mod.ts");'],
      ["lib/service.ts", 'import {\n  a,\n  b,\n} from "../adapters/sql/mod.ts";'],
      ["adapters/sql/runs.ts", 'import { Worker } from "../../lib/engine/worker.ts";'],
      ["adapters/sqlite/bun.ts", 'import "node:sqlite";'],
      ["adapters/langgraph/mod.ts", 'import { createHandler } from "../../lib/http/handler.ts";'],
      ["adapters/studio/page/api/types.ts", 'import { statsOf } from "../../../../lib/runs/stats.ts";'],
      ["adapters/studio/page/api/types.ts", 'export * from "../../../../lib/runs/stats.ts";'],
      ["lib/http/routes/threads.ts", 'import { type Extra, type ThreadDirectory } from "../../threads/mod.ts";'],
      ["lib/http/routes/runs.ts", 'import { withVisibility } from "../../storage/visibility.ts";'],
      ["lib/http/handler.ts", "const { threads } = service.directories;"],
      ["lib/protocol/session.ts", 'import type { Scope } from "../storage/mod.ts";'],
      ["adapters/studio/mod.ts", 'import { x } from "../../lib/http/handler.ts"; serviceInternals(x).directories;'],
      ["server.ts", 'import { sql } from "kysely";'],
      ["examples/echo.ts", 'import { createService } from "../lib/mod.ts";'],
      ["lib/engine/worker.ts", "const t = Date.now();"],
      ["lib/engine/worker.ts", "const t = new Date().toISOString();"],
      // biome-ignore lint/suspicious/noTemplateCurlyInString: the text of a program
      ["lib/engine/worker.ts", "const t = `${new Date()}`;"],
      ["lib/engine/worker.ts", "setTimeout(() => {}, 5);"],
      ["lib/engine/worker.ts", "globalThis.setInterval(f, 5);"],
      ["lib/engine/worker.ts", "const r = Math.random();"],
      ["lib/engine/worker.ts", "const id = crypto.randomUUID();"],
      ["lib/engine/worker.ts", "await fetch(url);"],
      ["lib/engine/worker.ts", "const home = process.env.HOME;"],
      ["adapters/sql/runs.ts", "sql.raw(text)"],
      ["adapters/sql/runs.ts", "sql.lit(value)"],
    ];
    for (const [path, source] of planted) assert.equal(problemsOf(path, source).length, 1, `${path}: ${source}`);
  });

  it("let pass what is allowed", () => {
    const allowed: readonly (readonly [path: string, source: string])[] = [
      ["lib/validation.ts", 'import * as v from "valibot";\nimport { isObject } from "./json.ts";'],
      ["lib/engine/worker.ts", '// Date.now() is not used\nconst text = "setTimeout( Math.random process.env";'],
      ["lib/engine/worker.ts", "const at = new Date(now).toISOString(); handler.fetch(request); this.#fetch(url);"],
      // biome-ignore lint/suspicious/noTemplateCurlyInString: the text of a program
      ["lib/engine/worker.ts", "const quote = /[\"'`]/g; const s = `a ${list.map((x) => `${x}`)} setTimeout`;"],
      ["lib/environment.ts", "const now = () => Date.now();"],
      ["adapters/sql/runs.ts", "rows.at(-1);"],
      ["adapters/sql/runs.ts", 'import { sql } from "kysely"; sql.lit(0);'],
      ["adapters/studio/page/api/types.ts", 'export type { RunStats } from "../../../../lib/runs/stats.ts";'],
      [
        "adapters/standalone/bin.ts",
        'import { join } from "node:path";\nimport { createHandler } from "../../lib/http/handler.ts";',
      ],
      [
        "examples/echo.ts",
        'import { createService } from "greenroom";\nimport { bunSqlite } from "greenroom/bun-sqlite";',
      ],
    ];
    for (const [path, source] of allowed) assert.deepEqual(problemsOf(path, source), [], source);
  });

  it("read every form of an import", () => {
    const source = [
      'import a from "a"; import { b } from "b";',
      'import type { c } from "c";',
      'export * from "d";',
      'import "e";',
      'const f = () => import("f");',
      '// import g from "g";',
      "const text = 'import h from \"h\"';",
    ].join("\n");
    assert.deepEqual(importsOf(source), ["a", "b", "c", "d", "e", "f"]);
    assert.deepEqual(importsOf(source, "code"), ["a", "b", "d", "e", "f"]);
    assert.equal(strip("a /* b */ c // d\ne").code, "a  c \ne");
  });
});

describe("the core", () => {
  it("reaches no package but valibot, croner and ipaddr.js", () => {
    const packages = new Set<string>();
    const seen = new Set<string>();
    const visit = (path: string): void => {
      if (seen.has(path)) return;
      seen.add(path);
      for (const name of path.endsWith(".ts") ? importsOf(read(path)) : []) {
        if (name.startsWith(".")) visit(posix.join(posix.dirname(path), name));
        // Loaded where they are: to send webhooks, and to find steps inside of steps.
        else if (!/^lib\/(?:webhooks\/send|functions\/work)\.ts$/.test(path) || !name.startsWith("node:"))
          packages.add(name);
      }
    };
    visit("lib/mod.ts");
    assert.ok(seen.has("lib/service.ts"));
    assert.deepEqual(
      [...packages].filter((name) => !["valibot", "croner", "ipaddr.js"].includes(name)),
      [],
    );
  });
});
