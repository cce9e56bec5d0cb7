/**
 * Runs what hosts LangGraph, and what clients rely on, with what npm calls newest of LangGraph and of the SDK, and ends with one line,
 * `N passed, N failed`. The versions are in the line before.
 *
 *   npm run compat
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const folder = mkdtempSync(join(tmpdir(), "greenroom-compat-"));
// The names are those that the tests import.
const dependencies = {
  "@langchain/core": "latest",
  "@langchain/langgraph": "latest",
  "@langchain/langgraph-checkpoint": "latest",
  "langgraph-sdk-1-15": "npm:@langchain/langgraph-sdk@^1",
  "langgraph-sdk-2": "npm:@langchain/langgraph-sdk@latest",
};
const npm = ["install", "--no-audit", "--no-fund", "--no-package-lock"];
try {
  writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true, dependencies }));
  const { status } = spawnSync("npm", npm, {
    cwd: folder,
    stdio: ["ignore", "ignore", "inherit"],
    shell: process.platform === "win32",
  });
  if (status !== 0) throw new Error("npm could not install the newest versions: is the registry reachable?");
  const tests = spawnSync(process.execPath, ["scripts/test.ts", "--versions", folder], { stdio: "inherit" });
  process.exitCode = tests.status ?? 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
