/** The program of docs/guides/kysely.md: Greenroom in a Kysely database of the host, beside its own tables. */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { pathToFileURL } from "node:url";
import { createTemporaryFolder, root } from "../support/programs.ts";

const onBun = "Bun" in globalThis;

/** Extracts the TypeScript of the page, with the sources of this checkout and a database file of the test. */
function extractProgram(page: string, database: string): string {
  const { exports } = JSON.parse(readFileSync(join(root, "jsr.json"), "utf8")) as {
    readonly exports: Readonly<Record<string, string>>;
  };
  const source = [...page.matchAll(/^```ts[^\n]*\n([\s\S]*?)^```$/gm)].map(([, block]) => block).join("\n");
  const packages: Readonly<Record<string, string>> = {
    ...{ kysely: "node_modules/kysely/dist/esm/index.js" },
    ...{ "kysely-bun-sqlite": "node_modules/kysely-bun-sqlite/dist/index.js" },
  };
  return source
    .replace('"shop.db"', JSON.stringify(database))
    .replace(/from "(greenroom(?:\/[\w-]+)?|kysely[\w-]*)"/g, (_whole, name: string) => {
      const file = packages[name] ?? (exports[name.replace("greenroom", ".")] as string);
      return `from ${JSON.stringify(pathToFileURL(join(root, file)).href)}`;
    });
}

if (onBun) {
  describe("docs/guides/kysely.md", () => {
    it("shows what its code does", async () => {
      using folder = createTemporaryFolder();
      const [file, database] = [join(folder.path, "page.ts"), join(folder.path, "shop.db")];
      const page = readFileSync(join(root, "docs/guides/kysely.md"), "utf8");
      writeFileSync(file, `${extractProgram(page, database)}\nexport { report };\n`);
      const { report } = (await import(pathToFileURL(file).href)) as { readonly report: unknown };
      assert.deepEqual(report, [{ id: "o-1", status: "success" }]);

      const { Database } = await import("bun:sqlite");
      const stored = new Database(database, { readonly: true });
      assert.deepEqual(stored.query("select id from orders").all(), [{ id: "o-1" }]);
      assert.deepEqual(stored.query("select count(*) as count from threads").all(), [{ count: 1 }]);
      stored.close();
    });
  });
}
