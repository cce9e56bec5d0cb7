/** The files of a kill soak, and its progress. */
import { appendFileSync } from "node:fs";
import { join } from "node:path";

/** The files of the soak in its folder, beside the database and the executions. `judge` reads the first two. */
export interface KillFiles {
  readonly facts: string;
  readonly posts: string;
  readonly progress: string;
}

export const getKillFiles = ({ path }: { readonly path: string }): KillFiles => ({
  facts: join(path, "facts.log"),
  posts: join(path, "posts.log"),
  progress: join(path, "progress.log"),
});

/** The interval at which progress is written. */
const PROGRESS_MS = 5_000;

/** Writes at once, and then every few seconds, how far a soak is. `count`: what it has done so far, by name. */
export function logProgress(file: string, count: () => Readonly<Record<string, number>>): { stop(): void } {
  const write = (): void => {
    const text = Object.entries(count())
      .map(([name, n]) => `${n} ${name}`)
      .join(", ");
    appendFileSync(file, `${new Date().toISOString()} ${text}\n`);
    if (process.stderr.isTTY) process.stderr.write(`\r${text} `);
  };
  write();
  const timer = setInterval(write, PROGRESS_MS);
  return {
    stop() {
      clearInterval(timer);
      write();
    },
  };
}
