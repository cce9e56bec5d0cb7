/** Tells when files of a project change. Directories are watched, since editors replace files; what counts is time and size. */
import { type FSWatcher, readdirSync, statSync, watch } from "node:fs";
import { dirname, join } from "node:path";

/** Editors write in steps. */
const SETTLE_MS = 40;
const SOURCE = /\.(?:[cm]?[jt]sx?|json)$/;
const SKIPPED = /^(?:\..*|node_modules|dist)$/;

export interface Watch {
  /** Records the files of a load that started at this time. With `broken`, all source files are watched. */
  recordLoad(files: readonly string[], startedAt: number, broken: boolean): void;
  /** Returns the watched files. */
  listFiles(): readonly string[];
  /** Resolves to the files that changed since the last load, when there are any. */
  waitForChange(): Promise<readonly string[]>;
}

/**
 * Creates a watch of the files of a project in `folder`. It watches nothing until `recordLoad` is called, and never
 * ends.
 */
export function watchFiles(folder: string): Watch {
  const watchers = new Map<string, FSWatcher>();
  let states: ReadonlyMap<string, string> = new Map();
  let projectFiles: readonly string[] = [];
  let watchesAllSources = false;
  let wake: (() => void) | undefined;
  let settling: ReturnType<typeof setTimeout> | undefined;

  /** Wakes `waitForChange` once no event has come for `SETTLE_MS`. */
  const onEvent = (): void => {
    clearTimeout(settling);
    settling = setTimeout(() => wake?.(), SETTLE_MS);
  };

  const listFiles = (): readonly string[] =>
    watchesAllSources ? [...new Set([...projectFiles, ...listSourceFiles(folder)])] : projectFiles;

  /** Watches the folders of these files and stops to watch all others. Folders that cannot be watched are left out. */
  function watchFolders(paths: readonly string[]): void {
    const folders = new Set(paths.map(dirname));
    for (const [path, watcher] of watchers) {
      if (folders.has(path)) continue;
      watcher.close();
      watchers.delete(path);
    }
    for (const path of folders) {
      if (watchers.has(path)) continue;
      // A folder that goes away is an error on some systems.
      const watcher = tryRead(() => watch(path, onEvent).on("error", onEvent));
      if (watcher) watchers.set(path, watcher);
    }
  }

  return {
    listFiles,
    recordLoad(loadedFiles, startedAt, broken) {
      projectFiles = loadedFiles;
      watchesAllSources = broken;
      const currentFiles = listFiles();
      watchFolders([join(folder, "."), ...currentFiles]);
      // What changed while it was loaded may have been read before.
      states = new Map(
        currentFiles.map((file) => [
          file,
          states.get(file) ?? (readChangeTime(file) > startedAt ? "" : readFileState(file)),
        ]),
      );
    },
    async waitForChange() {
      for (;;) {
        const changedFiles = listFiles().filter((file) => readFileState(file) !== (states.get(file) ?? "missing"));
        if (changedFiles.length > 0) {
          states = new Map([...states, ...changedFiles.map((file) => [file, readFileState(file)] as const)]);
          return changedFiles;
        }
        if (watchesAllSources) watchFolders([join(folder, "."), ...listFiles()]);
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
  };
}

/**
 * Returns what `read` returns; undefined if it throws, because one file or folder that is missing must not end the
 * watch.
 */
function tryRead<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** Returns a text that changes with the file; `missing` if it cannot be read. */
function readFileState(file: string): string {
  const stats = tryRead(() => statSync(file));
  return stats ? `${stats.mtimeMs} ${stats.size} ${stats.ino}` : "missing";
}

const readChangeTime = (file: string): number => tryRead(() => statSync(file))?.mtimeMs ?? 0;

/**
 * Returns the source files of a folder and of those in it, without skipped folders such as `node_modules`; empty if it
 * cannot be read.
 */
function listSourceFiles(folder: string): string[] {
  const entries = tryRead(() => readdirSync(folder, { withFileTypes: true })) ?? [];
  return entries.flatMap((entry) => {
    if (SKIPPED.test(entry.name)) return [];
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return listSourceFiles(path);
    return SOURCE.test(entry.name) ? [path] : [];
  });
}
