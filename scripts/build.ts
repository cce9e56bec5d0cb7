/** Writes dist: JavaScript and declarations of everything the package exports. Writes THIRD-PARTY-LICENSES beside it. */
import { spawnSync } from "node:child_process";
import { chmodSync, cpSync, existsSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, relative } from "node:path";
import { build, buildSync, type Metafile } from "esbuild";
import { listLicences } from "./licences.ts";

function rewrite(file: string, change: (text: string) => string): void {
  writeFileSync(file, change(readFileSync(file, "utf8")));
}

/** tsc leaves the endings of the sources in declarations. Deno takes them literally, and dist has no `.ts` files of that name. */
function nameJavaScript(declarations: string): string {
  return declarations.replace(/((?:from |import\()"\.[^"]*)\.ts"/g, '$1.js"');
}

/** Outside node_modules Deno finds the declarations of a JavaScript file by this comment alone. */
function nameDeclarations(file: string): void {
  const comment = `// @ts-self-types="./${basename(file, ".js")}.d.ts"\n`;
  rewrite(file, (text) => text.replace(/^(#!.*\n)?(\/\/ @bun\n)?/, (head) => head + comment));
}

/** Packages in jiti's bundle whose modules are joined with others, so that no path names them. */
const JOINED_IN_JITI = ["acorn", "pathe", "ufo"];

/**
 * The loader of the command goes along: one more dependency would be installed by everybody who embeds the library. Returns its
 * modules; the bundles of jiti name theirs by their paths.
 */
function copyLoader(): string[] {
  const [from, to] = ["node_modules/jiti", "dist/adapters/standalone/jiti"];
  const files = ["lib/jiti.mjs", "dist/jiti.cjs", "dist/babel.cjs"];
  for (const file of files) cpSync(join(from, file), join(to, file));
  const bundled = files.flatMap((file) =>
    [...readFileSync(join(from, file), "utf8").matchAll(/"\.\/(node_modules\/\.pnpm\/[^" ]+)[" ]/g)].map(
      ([, path]) => `${from}/${path}`,
    ),
  );
  if (bundled.length === 0) throw new Error("jiti's bundles do not name the packages in them any more");
  bundled.push(...JOINED_IN_JITI.map((name) => `${from}/node_modules/${name}/index.js`));
  rewrite("dist/adapters/standalone/loader.js", (text) => {
    const parts = text.split('import("jiti")');
    if (parts.length !== 2) throw new Error("loader.js does not import jiti where it did");
    return parts.join('import("./jiti/lib/jiti.mjs")');
  });
  return [...files.map((file) => `${from}/${file}`), ...bundled];
}

/** The WebSockets of Node, for the same reason, as one file. Returns its modules. */
function bundleWebSockets(): string[] {
  const from = join("node_modules", "ws");
  const outfile = "dist/adapters/standalone/ws.cjs";
  const external = ["bufferutil", "utf-8-validate"];
  const { metafile } = buildSync({
    entryPoints: [join(from, "wrapper.mjs")],
    bundle: true,
    platform: "node",
    format: "cjs",
    external,
    outfile,
    metafile: true,
  });
  rewrite("dist/adapters/node/upgrade.js", (text) => {
    const parts = text.split('import("ws")');
    if (parts.length !== 2) throw new Error("upgrade.js does not import ws where it did");
    return parts.join('import("./ws.cjs")');
  });
  return Object.keys(metafile.inputs);
}

/**
 * Joins the files behind each export and the command, with what they use of these packages: to find and read many files takes
 * Node half of a start. What several share is in files of its own, beside the command: from there it finds templates and loader. By
 * the first line Bun knows that nothing is to be transpiled: the first start in a container takes half as long. There are no
 * source maps: they would be a fifth of the package, and lead to sources that it does not contain. Returns the modules.
 */
const JOINED = ["valibot", "itty-router"];

async function joinFiles(): Promise<string[]> {
  const { exports, dependencies, peerDependencies } = JSON.parse(readFileSync("package.json", "utf8")) as Record<
    "exports" | "dependencies" | "peerDependencies",
    Record<string, { default?: string }>
  >;
  const apart = Object.keys({ ...dependencies, ...peerDependencies }).filter((name) => !JOINED.includes(name));
  const command = "dist/adapters/standalone/bin.js";
  const { metafile } = await build({
    entryPoints: [
      command,
      join(dirname(command), "main.js"),
      ...Object.values(exports).flatMap((target) => target.default ?? []),
    ],
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    banner: { js: "// @bun" },
    external: [...apart, "bun:*", "./jiti/*", "./ws.cjs"],
    outbase: "dist",
    outdir: "dist",
    chunkNames: `${relative("dist", dirname(command))}/[name]-[hash]`,
    allowOverwrite: true,
    metafile: true,
  });
  for (const file of Object.keys(metafile.inputs)) {
    if (file in metafile.outputs || JOINED.some((name) => file.includes(`node_modules/${name}/`))) continue;
    if (!file.startsWith("dist/")) throw new Error(`${file} belongs to a package that dist must not contain`);
    rmSync(file);
  }
  return Object.keys(metafile.inputs);
}

/** Removes the declarations that those of no export import: two thirds of the files, and a tenth of the package. */
function removeUnreachableDeclarations(): void {
  const { exports } = JSON.parse(readFileSync("package.json", "utf8")) as {
    readonly exports: Readonly<Record<string, { readonly types?: string }>>;
  };
  const reached = new Set<string>();
  const waiting = Object.values(exports).flatMap(({ types }) => (types === undefined ? [] : [join(types)]));
  for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
    if (reached.has(file) || !existsSync(file)) continue;
    reached.add(file);
    for (const [, path = ""] of readFileSync(file, "utf8").matchAll(/(?:from |import\(|import )"(\.[^"]*)\.js"/g)) {
      waiting.push(join(dirname(file), `${path}.d.ts`));
    }
  }
  for (const file of globSync("dist/**/*.d.ts")) if (!reached.has(file)) rmSync(file);
}

rmSync("dist", { recursive: true, force: true });
const folder = mkdtempSync(join(tmpdir(), "greenroom-build-"));
const studioMetafile = join(folder, "studio.json");
const studioArgs = ["scripts/studio.mjs", "--quiet", "--metafile", studioMetafile];
const page = spawnSync(process.execPath, studioArgs, { stdio: "inherit" });
if (page.status !== 0) process.exit(page.status ?? 1);
const studio = JSON.parse(readFileSync(studioMetafile, "utf8")) as Metafile;
rmSync(folder, { recursive: true });
const tsc = join("node_modules", "typescript", "bin", "tsc");
const { status } = spawnSync(process.execPath, [tsc, "-p", "tsconfig.build.json"], { stdio: "inherit" });
if (status === 0) {
  for (const file of globSync("dist/**/*.d.ts")) rewrite(file, nameJavaScript);
  removeUnreachableDeclarations();
  const dist = [...copyLoader(), ...bundleWebSockets(), ...(await joinFiles())];
  const shipped = [
    { part: "dist", modules: dist },
    { part: "studio", modules: Object.keys(studio.inputs) },
  ];
  writeFileSync("THIRD-PARTY-LICENSES", listLicences(".", shipped));
  for (const file of globSync("dist/**/*.js")) if (existsSync(file.replace(/js$/, "d.ts"))) nameDeclarations(file);
  chmodSync("dist/adapters/standalone/bin.js", 0o755);
}
process.exitCode = status ?? 1;
