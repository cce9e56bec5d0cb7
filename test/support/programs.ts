/** Starts programs as processes of the runtime that runs the test, and waits for what they print. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import process from "node:process";

export const root: string = resolve(import.meta.dirname, "../..");
export const runtime: "bun" | "deno" | "node" = "Bun" in globalThis ? "bun" : "Deno" in globalThis ? "deno" : "node";

/** Creates a folder that is deleted when its scope ends. */
export function createTemporaryFolder(): { readonly path: string } & Disposable {
  const path = mkdtempSync(join(tmpdir(), "greenroom-runtime-"));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

export interface Program extends AsyncDisposable {
  /** Returns both outputs so far. */
  output(): string;
  /** Resolves with the match once the output has one; rejects when the program ends first. */
  printed(pattern: RegExp): Promise<RegExpExecArray>;
  /** The exit code, or the signal's name. */
  readonly ended: Promise<number | string>;
  kill(signal: NodeJS.Signals): Promise<number | string>;
}

export interface ProgramOptions {
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
  /** The runtime's command; default: run a program. */
  readonly command?: readonly string[];
  /** A shell command that runs first, such as one that sets a limit. */
  readonly first?: string;
}

/** Runs a TypeScript file; inside it `greenroom` means the sources of this checkout. */
export function start(
  file: string,
  args: readonly string[],
  { cwd, env = {}, command, first }: ProgramOptions,
): Program {
  const run = { bun: [], deno: ["run", "-A", "--no-check"], node: ["--no-warnings"] }[runtime];
  const flags = [...(command ?? run), "--conditions=greenroom-source", join(root, file), ...args];
  // NODE_TEST_CONTEXT would make a test that Node runs here believe it is a part of this one.
  const foreign = /^(GREENROOM_.*|PORT|NODE_TEST_CONTEXT)$/;
  const inherited = Object.fromEntries(Object.entries(process.env).filter(([name]) => !foreign.test(name)));
  const [program, programArgs]: readonly [string, readonly string[]] =
    first === undefined
      ? [process.execPath, flags]
      : ["sh", ["-c", `${first}; exec "$0" "$@"`, process.execPath, ...flags]];
  return watch(spawn(program, programArgs, { cwd, env: { ...inherited, ...env }, stdio: ["ignore", "pipe", "pipe"] }));
}

function watch(child: ChildProcess): Program {
  let output = "";
  const waiting = new Set<() => void>();
  const add = (bytes: Uint8Array): void => {
    output += new TextDecoder().decode(bytes);
    for (const look of waiting) look();
  };
  child.stdout?.on("data", add);
  child.stderr?.on("data", add);
  const ended = new Promise<number | string>((done) => {
    child.on("close", (code, signal) => done(code ?? signal ?? "unknown"));
  });
  const kill = (signal: NodeJS.Signals): Promise<number | string> => {
    // Not child.kill: on Deno it makes a clean exit look like an end by the signal.
    if (child.exitCode === null && child.signalCode === null && child.pid) process.kill(child.pid, signal);
    return ended;
  };
  return {
    ended,
    kill,
    output: () => output,
    printed: (pattern) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          const match = pattern.exec(output);
          if (!match) return;
          waiting.delete(look);
          resolve(match);
        };
        waiting.add(look);
        look();
        ended.then((code) => reject(new Error(`ended with ${code} before it printed ${pattern}:\n${output}`)));
      }),
    async [Symbol.asyncDispose]() {
      await kill("SIGKILL");
    },
  };
}

/** Waits for the URL at which a server listens. */
export async function waitForUrl(program: Program): Promise<string> {
  return (await program.printed(/^Greenroom listening on (http:\/\/\S+)$/m))[1] as string;
}
