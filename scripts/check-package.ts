/**
 * Packs the package and installs it: alone, where npm must print no warning, and in a folder beside LangGraph. Serves projects from
 * there: on Node 22, and two, for a release each, also by `npm exec greenroom` and by `bunx --bun greenroom`; the one with a
 * `greenroom.config.ts` also on Deno. Runs the program of README.md
 * in a new project. Then writes a project from a template, for a release from each, and develops it on Node and on Bun. Also imports
 * every export. Prints what failed; exit code 1 then.
 *
 *   node scripts/check-package.ts [TARBALL]     without one it packs the package itself
 */
import { spawn, spawnSync } from "node:child_process";
import { cpSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, delimiter, join, resolve } from "node:path";
import { runProjectImage } from "./project-image.ts";
import { runReadmeProgram } from "./readme-program.ts";

interface Manifest {
  readonly devDependencies: Readonly<Record<string, string>>;
  readonly exports: Readonly<Record<string, unknown>>;
}

const folder = mkdtempSync(join(tmpdir(), "greenroom-package-"));
/** The folder of a reader of the docs, with the packed package in its folder `greenroom`. */
const reader = mkdtempSync(join(tmpdir(), "greenroom-reader-"));
const manifest = JSON.parse(readFileSync("package.json", "utf8")) as Manifest;
const env = { ...process.env, PATH: `${resolve("node_modules/.bin")}${delimiter}${process.env.PATH}` };

function run(command: string, args: readonly string[], cwd: string): string {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, env, encoding: "utf8" });
  if (status !== 0) throw new Error(`${command} ${args.join(" ")} ended with ${status}:\n${stdout}${stderr}`);
  return stdout;
}

/** Installs the package alone in a new folder, as its users do. Fails if npm prints a warning, such as that of a deprecated version. */
function requireInstallWithoutWarnings(tarball: string): void {
  const cwd = join(folder, "alone");
  mkdirSync(cwd);
  run("npm", ["init", "-y"], cwd);
  const { status, stdout, stderr } = spawnSync("npm", ["install", tarball], { cwd, env, encoding: "utf8" });
  const printed = `${stdout}${stderr}`;
  if (status !== 0 || /warn|deprecated/i.test(printed)) {
    throw new Error(`npm install of the packed package must print no warning, and printed:\n${printed}`);
  }
}

/** The maximum sizes of the package, in MB. */
const MAX_SIZES_MB = { packed: 2.2, installed: 22 };

/** Fails unless npm has chosen the newer release of Kysely that the package accepts. The checkout has the older one, for kysely-bun-sqlite. */
function requireNewerKysely(modules: string): void {
  const { version } = JSON.parse(readFileSync(join(modules, "kysely/package.json"), "utf8")) as { version: string };
  if (!version.startsWith("0.29.")) throw new Error(`The package was tested on Kysely ${version}, not on 0.29`);
  console.log(`The package runs on Kysely ${version}`);
}

/** Fails if the package has become large, or contains what only this repository needs. Prints its sizes. */
function requireSmallPackage(tarball: string, modules: string): void {
  const sizes = { packed: statSync(tarball).size, installed: 0 };
  for (const path of globSync("**/*", { cwd: modules, withFileTypes: true })) {
    if (path.isFile()) sizes.installed += statSync(join(path.parentPath, path.name)).size;
  }
  for (const name of ["packed", "installed"] as const) {
    const size = (sizes[name] / 1_000_000).toFixed(2);
    console.log(
      `The package has ${size} MB ${name}${name === "installed" ? " with its dependencies" : ""}; limit: ${MAX_SIZES_MB[name]}`,
    );
    if (Number(size) > MAX_SIZES_MB[name]) throw new Error(`The package is too large: ${size} MB ${name}`);
  }
  const packageFolder = join(modules, "greenroom");
  const surplus = globSync(["{lib,adapters,test}", "server.ts", "**/*.{png,svg,jpg}", "**/*.d.ts.map"], {
    cwd: packageFolder,
  });
  for (const file of globSync("dist/**/*.map", { cwd: packageFolder })) {
    if (readFileSync(join(packageFolder, file), "utf8").includes('"sourcesContent"'))
      surplus.push(`${file} with sources`);
  }
  if (readFileSync(join(packageFolder, "package.json"), "utf8").includes("greenroom-source"))
    surplus.push("greenroom-source");
  if (surplus.length > 0) throw new Error(`The package has what its users do not need: ${surplus.join(", ")}`);
}

/** Fails if the installed package contains code of a package that its THIRD-PARTY-LICENSES does not name. */
function requireLicences(packageFolder: string): void {
  const licences = readFileSync(join(packageFolder, "THIRD-PARTY-LICENSES"), "utf8");
  // esbuild names each module in front of its code, jiti's bundles as the keys of an object. The page is minified.
  const module = /(?:^\/\/ |"\.\/)node_modules\/(?:[^" \n]*node_modules\/)?((?:@[^/]+\/)?[^/."]+)\//gm;
  const inDist = globSync("dist/**/*.{js,cjs}", { cwd: packageFolder }).flatMap((file) =>
    [...readFileSync(join(packageFolder, file), "utf8").matchAll(module)].map(([, name]) => name),
  );
  const inPage = globSync("adapters/studio/page/**/*.{ts,tsx}").flatMap((file) =>
    [...readFileSync(file, "utf8").matchAll(/ from "((?:@[^/"]+\/)?[a-z][^/"]*)/g)].map(([, name]) => name),
  );
  const names = new Set([...inDist, ...inPage]);
  for (const name of ["valibot", "ws", "@babel/core", "preact"]) {
    if (!names.has(name))
      throw new Error(`${name} was not found in the package: does this check still find third parties?`);
  }
  const missing = [...names].filter((name) => !new RegExp(`^${name}(?: \\S+)? \\(`, "m").test(licences));
  if (missing.length > 0) throw new Error(`THIRD-PARTY-LICENSES does not name ${missing.join(", ")}`);
}

function pack(): string {
  const [{ filename }] = JSON.parse(run("npm", ["pack", "--json", "--pack-destination", folder], ".")) as [
    { filename: string },
  ];
  return join(folder, filename);
}

async function post(url: string, body: unknown): Promise<Record<string, unknown>> {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${await answer.text()}`);
  return (await answer.json()) as Record<string, unknown>;
}

/** Starts the server in a project's folder, runs its agent, answers its interrupt, and fails unless the last message is as expected. */
async function requireServing(
  project: string,
  [command = "", ...args]: readonly string[],
  expected: Expected,
): Promise<void> {
  const options = [...args, "--port", "0", "--database", ":memory:"];
  const cwd = join(folder, project);
  const child = spawn(command, options, { cwd, env, stdio: ["ignore", "pipe", "pipe"], detached: true });
  const title = `${project}: ${command} ${options.join(" ")}`;
  try {
    const url = await new Promise<string>((resolveUrl, reject) => {
      let output = "";
      const readOutput = (bytes: Uint8Array): void => {
        output += new TextDecoder().decode(bytes);
        const line = /^Greenroom listening on (\S+)$/m.exec(output)?.[1];
        if (line) resolveUrl(line);
      };
      child.stdout.on("data", readOutput);
      child.stderr.on("data", readOutput);
      child.on("close", (code) => reject(new Error(`${title} ended with ${code}:\n${output}`)));
      setTimeout(() => reject(new Error(`${title} does not listen:\n${output}`)), 60_000).unref();
    });
    for (const [assistant_id, input, answer, expectedReply] of expected) {
      const { thread_id } = await post(`${url}/threads`, {});
      const wait = `${url}/threads/${thread_id}/runs/wait`;
      await post(wait, { assistant_id, input: { messages: [{ role: "user", content: input }] } });
      const { messages } = await post(wait, { assistant_id, command: { resume: answer } });
      const reply = (messages as { content: string }[]).at(-1)?.content;
      if (reply !== expectedReply) throw new Error(`${title}: ${assistant_id} said ${reply}`);
      const response = await fetch(`${url}/threads/${thread_id}`);
      const { status } = (await response.json()) as { status: string };
      if (status !== "idle") throw new Error(`${title}: the thread of ${assistant_id} is ${status}`);
    }
  } finally {
    // The whole group: npx and bunx start the server as a child.
    if (child.pid && child.exitCode === null) process.kill(-child.pid, "SIGTERM");
  }
}

/** True before a release: then all templates, which install packages twice, and each project on each runtime are tested. */
const ALL = process.env.GREENROOM_TEST_ALL === "1";
const TEMPLATES = ALL ? ["function", "langgraph", "ai-sdk", "ai-chat", "react"] : ["function"];

/**
 * Writes a project from a template by the commands of the quick start, and runs its test, its checks and `dev`, which also runs on Bun.
 * `check-templates.ts` tests all templates.
 */
async function requireDevelopment(template: string, tarball: string): Promise<void> {
  const projectName = `new-${template}`;
  const cwd = join(reader, projectName);
  run("npx", ["--yes", `./greenroom/${basename(tarball)}`, "init", projectName, "--template", template], reader);
  run("npm", [...install, `../greenroom/${basename(tarball)}`], cwd);
  run("npm", ["test"], cwd);
  run("npm", ["run", "check"], cwd);
  const agent = join(cwd, "src/agent.ts");
  const before = readFileSync(agent, "utf8");
  for (const way of [
    ["npm", "exec", "--no", "greenroom", "--", "dev"],
    ["bunx", "--bun", "--no-install", "greenroom", "dev"],
  ]) {
    await requireReload(projectName, way, agent);
    writeFileSync(agent, before);
  }
}

/** Starts `dev`, breaks the agent, repairs it, and fails unless `dev` prints both. */
async function requireReload(
  project: string,
  [command = "", ...args]: readonly string[],
  agent: string,
): Promise<void> {
  const options = [...args, "--port", "0", "--no-open"];
  const cwd = join(reader, project);
  const child = spawn(command, options, { cwd, env, stdio: ["ignore", "pipe", "pipe"], detached: true });
  let output = "";
  let readOutput = (): void => {};
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (bytes: Uint8Array) => {
      output += new TextDecoder().decode(bytes);
      readOutput();
    });
  }
  const printed = (pattern: RegExp): Promise<void> =>
    new Promise((resolvePrinted, reject) => {
      const late = setTimeout(
        () => reject(new Error(`${project}: ${command} dev did not print ${pattern}:\n${output}`)),
        60_000,
      );
      readOutput = () => {
        if (!pattern.test(output)) return;
        clearTimeout(late);
        resolvePrinted();
      };
      readOutput();
    });
  try {
    const code = readFileSync(agent, "utf8");
    await printed(/^Watching/m);
    writeFileSync(agent, `${code}export const broken = ;\n`);
    await printed(/agent\.ts cannot be loaded:[\s\S]*at src\/agent\.ts:\d+:\d+/);
    writeFileSync(agent, `${code}// mended\n`);
    await printed(/^Reloaded in \d+ ms: src\/agent\.ts$/m);
  } finally {
    if (child.pid && child.exitCode === null) process.kill(-child.pid, "SIGTERM");
  }
}

type Expected = readonly (readonly [assistant_id: string, input: string, answer: string, says: string])[];
const helloExchange: Expected[number] = ["agent", "Hello", "air", "air."];
const PROJECTS: Readonly<Record<string, Expected>> = {
  demo: [["agent", "Please refund 9 euros", "yes", "Done: 9 euros are on their way."]],
  template: [helloExchange],
  commonjs: [helloExchange, ["plain", "Hello", "earth", "earth."]],
  aliases: [helloExchange],
  config: [helloExchange, ["graph", "Hello", "earth", "earth."]],
};

const install = ["install", "--prefer-offline", "--no-audit", "--no-fund"];
const bin = join(folder, "node_modules/greenroom/dist/adapters/standalone/bin.js");

try {
  const tarball = process.argv[2] ? resolve(process.argv[2]) : pack();
  requireInstallWithoutWarnings(tarball);
  requireSmallPackage(tarball, join(folder, "alone/node_modules"));
  requireNewerKysely(join(folder, "alone/node_modules"));
  requireLicences(join(folder, "alone/node_modules/greenroom"));
  writeFileSync(join(folder, "package.json"), '{ "private": true, "type": "module" }\n');
  const beside = ["@langchain/core", "@langchain/langgraph", "@libsql/client", "@opentelemetry/api"].map(
    (name) => `${name}@${manifest.devDependencies[name]}`,
  );
  run("npm", [...install, tarball, ...beside], folder);
  requireNewerKysely(join(folder, "node_modules"));
  mkdirSync(join(folder, "old"));
  writeFileSync(join(folder, "old/package.json"), '{ "private": true }\n');
  run("npm", [...install, "node@22"], join(folder, "old"));

  cpSync("test/projects", folder, { recursive: true });
  mkdirSync(join(folder, "demo/src"), { recursive: true });
  for (const file of ["approval.ts", "model.ts"]) cpSync(join("examples/demo", file), join(folder, "demo/src", file));
  writeFileSync(
    join(folder, "demo/langgraph.json"),
    '{ "node_version": "22", "graphs": { "agent": "./src/approval.ts:graph" } }\n',
  );

  const names = Object.keys(manifest.exports).filter((name) => !/bun-sqlite|kysely|json/.test(name));
  const imports = names.map((name) => `await import("greenroom${name.slice(1)}");`).join("\n");
  writeFileSync(join(folder, "imports.mjs"), imports);
  run("node", ["imports.mjs"], folder);
  const node22 = join(folder, "old/node_modules/.bin/node");
  if (!run(node22, ["--version"], folder).startsWith("v22.")) throw new Error("node@22 is not Node 22");
  for (const [project, expected] of Object.entries(PROJECTS)) {
    const ways = [
      ["npm", "exec", "--no", "greenroom", "--"],
      [node22, bin],
      ["bunx", "--bun", "--no-install", "greenroom"],
    ];
    // test/adapters/standalone/loader.test.ts serves the others on each runtime, from the sources.
    const some = ALL || project === "demo" || project === "config" ? ways : ways.slice(1, 2);
    const denoWays = project === "config" ? [["deno", "run", "-A", bin]] : [];
    await Promise.all([...some, ...denoWays].map((way) => requireServing(project, way, expected)));
  }
  console.log("A greenroom.config.ts is served by the packed package on Node 24, on Node 22, on Bun and on Deno");
  const nodes = [env.PATH, `${join(folder, "old/node_modules/.bin")}${delimiter}${env.PATH}`];
  await runReadmeProgram(readFileSync("README.md", "utf8"), tarball, reader, nodes);
  console.log("The program of README.md runs in a new project, on Bun, Deno, Node 24 and Node 22");
  const began = performance.now();
  for (const template of TEMPLATES) await requireDevelopment(template, tarball);
  const seconds = Math.round((performance.now() - began) / 1000);
  const project = join(reader, "new-function");
  run("bash", ["-ec", `cp ../greenroom/${basename(tarball)} . && npm install ./${basename(tarball)}`], project);
  await runProjectImage(readFileSync("docs/operations/deployment.md", "utf8"), project, join(folder, "image"));
  console.log("The image of a project, as docs/operations/deployment.md has it, serves with a key and not without one");
  console.log("The packed package serves LangGraph.js projects on Node 24, on Node 22 and on Bun");
  console.log(
    `${TEMPLATES.join(", ")}: each template is written, installed, tested and reloaded, on Node and on Bun: ${seconds} s`,
  );
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
} finally {
  for (const path of [folder, reader]) rmSync(path, { recursive: true, force: true, maxRetries: 5 });
}
