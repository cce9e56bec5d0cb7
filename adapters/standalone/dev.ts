/** `greenroom dev`: serves a project, and loads it again when its files change. */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, relative, resolve } from "node:path";
import process from "node:process";
import { ConfigError } from "../../lib/mod.ts";
import type { CommandOptions } from "./command-options.ts";
import { type FileConfig, requireConfigFile } from "./config.ts";
import { describeError } from "./describe-error.ts";
import { forgetFiles, loadedFiles } from "./loader.ts";
import { loadProject } from "./project.ts";
import { type Server, serve } from "./server.ts";
import { watchFiles } from "./watch.ts";

export const devUsage = `greenroom dev: serve a project and reload it when its files change

  greenroom dev [--no-open] [--run COMMAND] [OPTION...]

  --no-open        do not open a browser; default: open the studio if started in a terminal
  --run COMMAND    start a second program, such as "vite"; GREENROOM_URL is the URL of this server. Both stop together

It watches the configuration file, the file that its "env" names, and the modules of the project that the agents import.
Active runs have 300 ms to end before a reload, and are then requeued. If a file cannot be loaded, the command prints the
error and keeps the previous agents. All options of the server, see greenroom --help, work here too.
`;

/**
 * Serves the project and reloads it after each change of its files until SIGTERM or SIGINT, so it does not resolve.
 * Starts the command of `--run`, else opens a browser at a terminal. A failed reload is printed and the earlier agents
 * stay. Rejects if the first start fails.
 */
export async function develop(options: CommandOptions): Promise<void> {
  const file = resolve(requireConfigFile(options.config));
  const watch = watchFiles(dirname(file));
  let server: Server | undefined;
  let files: readonly string[] = [file];

  /**
   * Loads the project and watches its files. At the start, a problem of the project is printed and the load repeated after each
   * change; later it is thrown.
   */
  const load: typeof loadProject = async (projectOptions) => {
    for (;;) {
      // The clock of the file system may be a tick behind.
      const startedAt = Date.now() - 10;
      forgetFiles(watch.listFiles());
      try {
        // At the start its packages are loaded too.
        const project = await withLoadTimeout(loadProject(projectOptions), server ? 10 : 60);
        files = listWatchedFiles(project.config);
        watch.recordLoad(files, startedAt, false);
        return project;
      } catch (error) {
        files = [...new Set([...files, ...loadedFiles()])];
        watch.recordLoad(files, startedAt, true);
        if (server || !(error instanceof ConfigError) || !existsSync(file)) throw error;
        printError(error, "Waiting for a change");
        await watch.waitForChange();
      }
    }
  };
  server = await serve(options, load);
  console.log(
    `Watching ${files.length} ${files.length === 1 ? "file" : "files"} of ${toRelativePath(dirname(file)) || "this folder"}`,
  );
  if (options.run !== undefined) (await import("./run-beside.ts")).runBeside(options.run, server.url);
  if (options.open && options.run === undefined && process.stdout.isTTY) openBrowser(`${server.url}/studio/`);
  for (;;) {
    const changed = await watch.waitForChange();
    const startedAt = performance.now();
    try {
      await server.reload();
      console.log(
        `Reloaded in ${Math.round(performance.now() - startedAt)} ms: ${changed.map(toRelativePath).join(", ")}`,
      );
    } catch (error) {
      printError(error, "The earlier agents stay. Waiting for a change");
    }
  }
}

/**
 * Settles as `loading`, or rejects with a ConfigError after `seconds`, so that a project that never finishes loading
 * does not block the next load. The load is not stopped.
 */
function withLoadTimeout<T>(loading: Promise<T>, seconds: number): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const then = "Bun" in globalThis ? ". Bun keeps waiting for it: fix the module and restart" : "";
  const problem = `The project has not loaded in ${seconds} s: an await at the top level of a module does not end${then}`;
  const timer = setTimeout(() => reject(new ConfigError([problem])), seconds * 1000);
  return Promise.race([loading, promise]).finally(() => clearTimeout(timer));
}

const listWatchedFiles = ({ file, env_file }: FileConfig): string[] => [
  ...new Set([file, ...(env_file ? [env_file] : []), ...loadedFiles()]),
];

const toRelativePath = (file: string): string => relative(process.cwd(), file);

function printError(error: unknown, nextStep: string): void {
  console.error(`${describeError(error, [ConfigError])}\n${nextStep}`);
}

const BROWSER_COMMANDS: Readonly<Partial<Record<NodeJS.Platform, readonly string[]>>> = {
  darwin: ["open"],
  win32: ["cmd", "/c", "start", ""],
};

/**
 * Opens the URL in the browser of the system, in a process of its own. Errors are ignored, because the address is
 * printed.
 */
function openBrowser(url: string): void {
  const [command, ...args] = BROWSER_COMMANDS[process.platform] ?? ["xdg-open"];
  spawn(command as string, [...args, url], { stdio: "ignore", detached: true })
    .on("error", () => {})
    .unref();
}
