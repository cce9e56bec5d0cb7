/**
 * The durable function of the soak: the simulation's scripts of durable operations, in real time, with a file that each step appends to
 * and syncs.
 */
import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";
import process from "node:process";
import type { AgentFunction } from "../../../lib/mod.ts";
import { createFunction } from "../../simulation/durable/scripts.ts";

/** An effect of a step outside. `killed`: written by the soak once a process is gone. */
export interface StepEffect {
  readonly mark: "began" | "ended" | "killed";
  readonly pid: number;
  readonly name: string;
  readonly chain: number;
  readonly at: number;
}

const file = process.env.SOAK_EXECUTIONS;
if (!file) throw new Error("SOAK_EXECUTIONS is not set");
const log = openSync(file, "a");
process.on("exit", () => closeSync(log));

function append(mark: StepEffect["mark"], name: string, chain = 0, at = 0): void {
  writeSync(log, `${JSON.stringify({ mark, pid: process.pid, name, chain, at } satisfies StepEffect)}\n`);
  fsyncSync(log);
}

export const agent: AgentFunction = createFunction({
  began: (name, chain, at) => append("began", name, chain, at),
  ended: (name) => append("ended", name),
  // In whichever process: one that was killed on its way counts too.
  failures: (name) => readFileSync(file, "utf8").split(`,"name":"${name}","chain":${name.split(".")[1]},`).length - 2,
  work: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
});
