/** Writes dist: JavaScript and declarations of everything the package exports. */
import { spawnSync } from "node:child_process";
import { chmodSync, cpSync, globSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { buildSync } from "esbuild";

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
  rewrite(file, (text) => text.replace(/^(#!.*\n)?/, (shebang) => shebang + comment));
  // One line more in front of all others, or behind the first, to which no mapping leads.
  rewrite(`${file}.map`, (text) => text.replace('"mappings":"', '"mappings":";'));
}

/**
 * The loader of the command goes along, with its licence: one more dependency would be installed by everybody who embeds the
 * library.
 */
function copyLoader(): void {
  const [from, to] = ["node_modules/jiti", "dist/adapters/standalone/jiti"];
  for (const file of ["lib/jiti.mjs", "dist/jiti.cjs", "dist/babel.cjs", "LICENSE"])
    cpSync(join(from, file), join(to, file));
  rewrite("dist/adapters/standalone/loader.js", (text) => {
    const parts = text.split('import("jiti")');
    if (parts.length !== 2) throw new Error("loader.js does not import jiti where it did");
    return parts.join('import("./jiti/lib/jiti.mjs")');
  });
}

/** The WebSockets of Node, for the same reason, as one file. */
function bundleWebSockets(): void {
  const from = join("node_modules", "ws");
  const outfile = "dist/adapters/node/ws.cjs";
  const external = ["bufferutil", "utf-8-validate"];
  buildSync({
    entryPoints: [join(from, "wrapper.mjs")],
    bundle: true,
    platform: "node",
    format: "cjs",
    external,
    outfile,
  });
  cpSync(join(from, "LICENSE"), "dist/adapters/node/ws.LICENSE");
  rewrite("dist/adapters/node/upgrade.js", (text) => {
    const parts = text.split('import("ws")');
    if (parts.length !== 2) throw new Error("upgrade.js does not import ws where it did");
    return parts.join('import("./ws.cjs")');
  });
}

/** What the verbs use of kysely, as one file: its 200 files take a fifth of the time that the server takes to start. */
function bundleKysely(): void {
  const outfile = "dist/adapters/sql/kysely.mjs";
  const names = new Set<string>();
  for (const file of globSync("dist/adapters/sql/**/*.js")) {
    const path = relative(dirname(file), outfile).replaceAll("\\", "/");
    rewrite(file, (text) =>
      text.replace(/^import \{([^}]+)\} from "kysely";$/m, (_, imported: string) => {
        for (const name of imported.split(",")) if (name.trim() !== "") names.add(name.trim());
        return `import {${imported}} from "${path.startsWith(".") ? path : `./${path}`}";`;
      }),
    );
    if (/from "kysely"/.test(readFileSync(file, "utf8"))) throw new Error(`${file} imports kysely in another way`);
  }
  const contents = `export { ${[...names].join(", ")} } from "kysely";`;
  buildSync({
    stdin: { contents, resolveDir: "." },
    bundle: true,
    format: "esm",
    minify: true,
    keepNames: true,
    outfile,
  });
  cpSync(join("node_modules", "kysely", "LICENSE"), "dist/adapters/sql/kysely.LICENSE");
}

rmSync("dist", { recursive: true, force: true });
const page = spawnSync(process.execPath, ["scripts/studio.mjs", "--quiet"], { stdio: "inherit" });
if (page.status !== 0) process.exit(page.status ?? 1);
const tsc = join("node_modules", "typescript", "bin", "tsc");
const { status } = spawnSync(process.execPath, [tsc, "-p", "tsconfig.build.json"], { stdio: "inherit" });
if (status === 0) {
  for (const file of globSync("dist/**/*.d.ts")) rewrite(file, nameJavaScript);
  copyLoader();
  bundleWebSockets();
  bundleKysely();
  for (const file of globSync("dist/**/*.js")) nameDeclarations(file);
  chmodSync("dist/adapters/standalone/bin.js", 0o755);
}
process.exitCode = status ?? 1;
