/** Tells when files of a project change. Directories are watched, since editors replace files; what counts is time and size. */
import { type FSWatcher, readdirSync, statSync, watch } from "node:fs";
import { dirname, join } from "node:path";

/** Editors write in steps. */
const SETTLE_MS = 40;
const SOURCE = /\.(?:[cm]?[jt]sx?|json)$/;
const SKIPPED = /^(?:\..*|node_modules|dist)$/;

export interface Watch {
  /** What the project consists of after a load that began at this time. `broken`: any source file may fix it. */
  loaded(files: readonly string[], began: number, broken: boolean): void;
  /** All that is watched. */
  files(): readonly string[];
  /** The files that have changed since. */
  changed(): Promise<readonly string[]>;
}

/** Watches nothing until `loaded`. `folder`: the project's. */
export function watchFiles(folder: string): Watch {
  const watchers = new Map<string, FSWatcher>();
  let states: ReadonlyMap<string, string> = new Map();
  let named: readonly string[] = [];
  let all = false;
  let wake: (() => void) | undefined;
  let settling: ReturnType<typeof setTimeout> | undefined;

  const onEvent = (): void => {
    clearTimeout(settling);
    settling = setTimeout(() => wake?.(), SETTLE_MS);
  };

  const files = (): readonly string[] => (all ? [...new Set([...named, ...sourcesIn(folder)])] : named);

  function watchFolders(of: readonly string[]): void {
    const folders = new Set(of.map(dirname));
    for (const [path, watcher] of watchers) {
      if (folders.has(path)) continue;
      watcher.close();
      watchers.delete(path);
    }
    for (const path of folders) {
      if (watchers.has(path)) continue;
      // A folder that goes away is an error on some systems.
      const watcher = tried(() => watch(path, onEvent).on("error", onEvent));
      if (watcher) watchers.set(path, watcher);
    }
  }

  return {
    files,
    loaded(given, began, broken) {
      named = given;
      all = broken;
      const now = files();
      watchFolders([join(folder, "."), ...now]);
      // What changed while it was loaded may have been read before.
      states = new Map(now.map((file) => [file, states.get(file) ?? (changedAt(file) > began ? "" : stateOf(file))]));
    },
    async changed() {
      for (;;) {
        const found = files().filter((file) => stateOf(file) !== (states.get(file) ?? "missing"));
        if (found.length > 0) {
          states = new Map([...states, ...found.map((file) => [file, stateOf(file)] as const)]);
          return found;
        }
        if (all) watchFolders([join(folder, "."), ...files()]);
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
  };
}

/** Undefined for what is not there or cannot be read: it is no reason to stop watching the rest. */
function tried<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

function stateOf(file: string): string {
  const stats = tried(() => statSync(file));
  return stats ? `${stats.mtimeMs} ${stats.size} ${stats.ino}` : "missing";
}

const changedAt = (file: string): number => tried(() => statSync(file))?.mtimeMs ?? 0;

function sourcesIn(folder: string): string[] {
  const entries = tried(() => readdirSync(folder, { withFileTypes: true })) ?? [];
  return entries.flatMap((entry) => {
    if (SKIPPED.test(entry.name)) return [];
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return sourcesIn(path);
    return SOURCE.test(entry.name) ? [path] : [];
  });
}
