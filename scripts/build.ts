/** Writes dist: JavaScript and declarations of everything the package exports. */
import { spawnSync } from "node:child_process";
import { chmodSync, rmSync } from "node:fs";
import { join } from "node:path";

rmSync("dist", { recursive: true, force: true });
const tsc = join("node_modules", "typescript", "bin", "tsc");
const { status } = spawnSync(process.execPath, [tsc, "-p", "tsconfig.build.json"], { stdio: "inherit" });
if (status === 0) chmodSync("dist/adapters/standalone/bin.js", 0o755);
process.exitCode = status ?? 1;
