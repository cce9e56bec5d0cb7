/** Node's compile cache: what it has compiled in one start serves the next. */
import { readdirSync, rmSync, statSync } from "node:fs";
import module from "node:module";
import { join } from "node:path";
import process from "node:process";

/** A project with LangGraph takes 4 MB, for each version of Node and of the packages. */
const MAX_BYTES = 32 * 1024 * 1024;

/** Returns the bytes of all files in a folder and in those below it. Throws if one cannot be read. */
function measureFolder(folder: string): number {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return files.reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
}

/**
 * Turns the compile cache of Node on, in this folder. If the folder is larger than 32 MB when the process exits, it is
 * deleted. Does nothing on other runtimes: Bun would write three times as much.
 */
export function enableCompileCache(folder: string): void {
  if (process.versions.bun || process.versions.deno) return;
  module.enableCompileCache?.(folder);
  // Node writes at the exit, too: until then the folder does not grow. At the start, to count would take milliseconds.
  process.once("exit", () => {
    try {
      if (measureFolder(folder) > MAX_BYTES) rmSync(folder, { recursive: true, force: true });
    } catch {
      // There is none, another process deletes it, or it cannot be written to.
    }
  });
}
