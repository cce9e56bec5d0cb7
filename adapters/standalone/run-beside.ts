/** The second program of `greenroom dev --run`: most often the development server of a web page. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import process from "node:process";

/**
 * Starts a command in a shell, with the URL of this server in `GREENROOM_URL`. The end of this process ends the
 * command. If the command ends by itself, the server stops with code 0, or this process ends at once with code 1 if the
 * command failed or cannot be started.
 */
export function runBeside(command: string, url: string): void {
  const env = { ...process.env, GREENROOM_URL: url };
  // `exec`, because a signal for the shell would not reach the command.
  const isWindows = process.platform === "win32";
  const child = isWindows
    ? spawn(command, { env, stdio: "inherit", shell: true })
    : spawn("sh", ["-c", `exec ${command}`], { env, stdio: "inherit" });
  let isStopping = false;
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => stop());

  /** Ends the child process. Its exit is no error then. */
  function stop(): void {
    isStopping = true;
    kill(child);
  }

  child.on("error", (error) => {
    console.error(`greenroom: --run: ${command} cannot be started: ${error.message}`);
    process.exit(1);
  });
  child.on("exit", (code, signal) => {
    if (isStopping) return;
    if (code === 0 || signal === "SIGTERM" || signal === "SIGINT") return void process.kill(process.pid, "SIGTERM");
    console.error(`greenroom: --run: ${command} ended with ${signal ?? `code ${code}`}`);
    process.exit(1);
  });
  process.once("exit", () => kill(child));
}

/** Ends a child process, on Windows with its children. Does nothing if it has ended. */
function kill(child: ChildProcess): void {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  if (process.platform === "win32") spawnSync("taskkill", ["/pid", String(child.pid), "/T", "/F"], { stdio: "ignore" });
  else child.kill("SIGTERM");
}
