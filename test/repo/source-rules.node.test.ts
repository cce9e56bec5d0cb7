import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, it } from "node:test";
import { findProblems } from "./source-rules.ts";

const root = resolve(import.meta.dirname, "../..");

describe("the rules on globals, SQL and scopes", () => {
  it("are satisfied by the tree", () => {
    const files = globSync("{lib,adapters}/**/*.{ts,tsx}", { cwd: root, exclude: ["**/assets.ts"] }).map((file) =>
      file.replaceAll("\\", "/"),
    );
    assert.ok(files.includes("lib/service.ts") && files.includes("adapters/sql/driver.ts"));
    assert.deepEqual(
      files.flatMap((file) => findProblems(file, readFileSync(join(root, file), "utf8"))),
      [],
    );
  });

  it("report an injected violation", () => {
    const planted: readonly (readonly [path: string, source: string])[] = [
      ["lib/http/routes/threads.ts", 'import { type Extra, type InternalThreads } from "../../threads/mod.ts";'],
      ["lib/http/routes/runs.ts", 'import { withVisibility } from "../../storage/visibility.ts";'],
      ["lib/http/handler.ts", "const { threads } = service.internalResources;"],
      ["lib/protocol/session.ts", 'import type { Scope } from "../storage/mod.ts";'],
      [
        "adapters/studio/mod.ts",
        'import { x } from "../../lib/http/handler.ts"; serviceInternals(x).internalResources;',
      ],
      ["lib/engine/worker.ts", "const t = Date.now();"],
      ["lib/engine/worker.ts", "const t = new Date().toISOString();"],
      // biome-ignore lint/suspicious/noTemplateCurlyInString: the text of a program
      ["lib/engine/worker.ts", "const t = `${new Date()}`;"],
      ["lib/engine/worker.ts", "setTimeout(() => {}, 5);"],
      ["lib/engine/worker.ts", "globalThis.setInterval(f, 5);"],
      ["lib/engine/worker.ts", "const r = Math.random();"],
      ["lib/engine/worker.ts", "const id = crypto.randomUUID();"],
      ["lib/engine/worker.ts", "await fetch(url);"],
      ["lib/engine/worker.ts", "run(setTimeout);"],
      ["lib/engine/worker.ts", "const later = queueMicrotask;"],
      ["lib/engine/worker.ts", "return process;"],
      ["lib/engine/worker.ts", "const home = process.env.HOME;"],
      ["adapters/sql/runs.ts", "sql.raw(text)"],
      ["adapters/sql/runs.ts", "sql.lit(value)"],
    ];
    for (const [path, source] of planted) assert.equal(findProblems(path, source).length, 1, `${path}: ${source}`);
  });

  it("accept allowed code", () => {
    const allowed: readonly (readonly [path: string, source: string])[] = [
      ["lib/engine/worker.ts", '// Date.now() is not used\nconst text = "setTimeout( Math.random process.env";'],
      ["lib/engine/worker.ts", "const at = new Date(now).toISOString(); handler.fetch(request); this.#fetch(url);"],
      ["lib/engine/worker.ts", "interface Host { fetch(url: string): void; process?: string }"],
      ["lib/environment.ts", "const now = () => Date.now();"],
      ["adapters/sql/runs.ts", 'import { sql } from "kysely"; sql.lit(0); sql.lit("text");'],
    ];
    for (const [path, source] of allowed) assert.deepEqual(findProblems(path, source), [], source);
  });
});
