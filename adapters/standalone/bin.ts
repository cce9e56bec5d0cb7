#!/usr/bin/env node
/** The command `greenroom`. On Node it takes what an earlier start has compiled from a folder beside this file, where it can write. */
import { realpathSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { enableCompileCache } from "./compile-cache.ts";
import { findRuntimeProblem } from "./runtime-version.ts";

// `import.meta.main` is missing on Node 22, and npx starts this file through a link.
const started = process.argv[1];
// A Node without `filename` is too old: it must say so, and not end in silence.
if (started && (import.meta.filename === undefined || realpathSync(started) === import.meta.filename)) {
  const problem = findRuntimeProblem(process.versions);
  if (problem !== undefined) {
    console.error(`greenroom: ${problem}`);
    process.exit(1);
  }
  // Not Node's default, a folder for temporary files: in one that others can write to, their code would be executed.
  enableCompileCache(join(import.meta.dirname, ".compiled"));
  await (await import("./main.ts")).main();
}
