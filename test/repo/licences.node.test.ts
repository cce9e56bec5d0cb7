/** THIRD-PARTY-LICENSES, as the build makes it of the modules that esbuild names. */
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, it } from "node:test";
import { build } from "esbuild";
import { listLicences } from "../../scripts/licences.ts";

describe("THIRD-PARTY-LICENSES", () => {
  let root: string;
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), "greenroom-licences-"));
  });
  afterEach(() => rmSync(root, { recursive: true }));

  function write(path: string, text: string): void {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  function addPackage(name: string, code: string, licence?: string): void {
    write(`node_modules/${name}/package.json`, JSON.stringify({ name, version: "1.2.3", main: "index.js" }));
    write(`node_modules/${name}/index.js`, code);
    if (licence !== undefined) write(`node_modules/${name}/LICENSE.md`, licence);
  }
  async function list(): Promise<string> {
    const { metafile } = await build({
      absWorkingDir: root,
      entryPoints: ["main.js"],
      bundle: true,
      format: "esm",
      write: false,
      metafile: true,
    });
    return listLicences(root, [{ part: "page", modules: Object.keys(metafile.inputs) }]);
  }

  it("has each package of the bundle once, and packages with the same text together", async () => {
    addPackage("first", 'export { b as a } from "@scope/second";', "The text.\r\n");
    addPackage("@scope/second", "export const b = 1;", "The text.\n");
    addPackage("third", "export const c = 1;", "Another text.");
    addPackage("unused", "export const d = 1;", "A text that is not shipped.");
    write("own.js", 'export { a } from "first";');
    write("main.js", 'export { a } from "./own.js"; export { c } from "third"; export { a as e } from "first";');
    const text = await list();
    assert.match(text, /@scope\/second 1\.2\.3 \(page\)\nfirst 1\.2\.3 \(page\)\n-+\nThe text\.\n\n=/);
    assert.match(text, /third 1\.2\.3 \(page\)\n-+\nAnother text\.\n$/);
    assert.equal(text.split("first 1.2.3").length, 2);
    assert.ok(!text.includes("unused") && !text.includes("own.js"));
  });

  it("fails for a package without a licence file, and names the package and the remedy", async () => {
    addPackage("bare", "export const a = 1;");
    write("main.js", 'export { a } from "bare";');
    await assert.rejects(
      list(),
      /^Error: bare has no licence file in .*bare\. Add its licence as scripts\/licences\/bare\.txt\.$/,
    );
    addPackage("bare", "export const a = 1;", "A licence.");
    assert.match(await list(), /bare 1\.2\.3 \(page\)\n-+\nA licence\.\n$/);
  });

  it("names the packages that another package's bundle contains, and fails for those without a known licence", async () => {
    const inner = (name: string): string =>
      `node_modules/outer/dist/node_modules/.pnpm/${name}@4.5.6_react@19.0.0/node_modules/${name}/index.js`;
    addPackage(
      "outer",
      'export { a } from "./dist/node_modules/.pnpm/p-queue@4.5.6_react@19.0.0/node_modules/p-queue/index.js";',
      "Outer.",
    );
    write(inner("p-queue"), "export const a = 1;");
    write("main.js", 'export { a } from "outer";');
    assert.match(await list(), /p-queue 4\.5\.6 \(page\)\n-+\nMIT License\n\nCopyright \(c\) Sindre Sorhus/);
    addPackage(
      "outer",
      'export { a } from "./dist/node_modules/.pnpm/strange@4.5.6_react@19.0.0/node_modules/strange/index.js";',
      "Outer.",
    );
    write(inner("strange"), "export const a = 1;");
    await assert.rejects(list(), /^Error: strange has no licence file in another package's bundle\./);
  });
});
