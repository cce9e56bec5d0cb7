/** Starts a server as a user does, by a command. */
import { type ChildProcess, spawn } from "node:child_process";

/** A server that a command starts. */
export class Program implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #ended: Promise<string>;
  readonly #command: string;
  #output = "";
  #look = (): void => {};

  constructor(command: string, cwd: string, env: NodeJS.ProcessEnv) {
    this.#command = command;
    const [file = "", ...args] = command.split(" ");
    this.#child = spawn(file, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.on("data", (bytes: Buffer) => {
        this.#output += bytes.toString();
        this.#look();
      });
    }
    this.#ended = new Promise((resolve) => {
      this.#child.once("error", (error) => resolve(error.message));
      this.#child.once("close", (code, signal) => resolve(signal ?? `code ${code}`));
    });
  }

  output(): string {
    return this.#output;
  }

  /** Returns the loopback address of the server that the program prints. Rejects if the program ends first. */
  async url(): Promise<string> {
    const listening = new Promise<string>((resolve) => {
      this.#look = () => {
        const port = /listening on http:\/\/[\d.]+:(\d+)/i.exec(this.#output)?.[1];
        if (port) resolve(`http://127.0.0.1:${port}`);
      };
      this.#look();
    });
    const ended = this.#ended.then((end) => {
      throw new Error(`${this.#command} ended with ${end}:\n${this.#output}`);
    });
    return await Promise.race([listening, ended]);
  }

  /** Returns the output of a program that ended by itself with exit code 1. */
  async failure(): Promise<string> {
    const end = await this.#ended;
    if (end !== "code 1") throw new Error(`${this.#command} ended with ${end}:\n${this.#output}`);
    return this.#output;
  }

  /** Sends SIGTERM, and expects exit code 0. */
  async terminate(): Promise<void> {
    this.#child.kill("SIGTERM");
    const end = await this.#ended;
    if (end !== "code 0") throw new Error(`${this.#command} ended with ${end} after SIGTERM:\n${this.#output}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#ended;
  }
}
