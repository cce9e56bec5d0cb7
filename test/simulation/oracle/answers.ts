/** Checks which interrupts runs answer: each is answered once, by the run that was bound to it. */
import type { Job } from "../../../lib/executor/contract.ts";
import type { World } from "../world.ts";
import { isActiveStatus, type RunNote } from "./notes.ts";

export class Answers {
  readonly #world: World;
  readonly #runs: ReadonlyMap<string, RunNote>;
  /** The last run that has consumed an answer to an interrupt, by interrupt id. */
  readonly #consumers = new Map<string, RunNote>();

  constructor(world: World, runs: ReadonlyMap<string, RunNote>) {
    this.#world = world;
    this.#runs = runs;
  }

  /** A run was created beside others that are active. */
  accepted(run: RunNote, strategy: string, activeRuns: readonly RunNote[]): void {
    if (strategy === "rollback") return;
    for (const activeRun of activeRuns) {
      const shared = run.targets.filter((id) => id !== null && activeRun.targets.includes(id));
      if (shared.length === 0) continue;
      this.#world.violation("A1", `${run.tag} was accepted, and ${activeRun.tag} answers ${shared.join()} already`);
    }
  }

  /** The agent of a run goes on with its answer. `pending`: the interrupts of the state that it starts from. */
  consumed({ run_id, resumed }: Job, pending: readonly string[]): void {
    const run = this.#runs.get(run_id);
    if (!run || resumed) return;
    for (const id of run.targets) {
      if (id === null) continue;
      if (!pending.includes(id)) {
        this.#world.violation("A2", `${run.tag} is bound to ${id}, and consumed by ${pending.join() || "nothing"}`);
      }
      const consumer = this.#consumers.get(id);
      // A run that was stopped or failed has left its interrupt open.
      const holds =
        consumer?.fate === "present" && (isActiveStatus(consumer.state.status) || consumer.state.status === "success");
      if (consumer && consumer !== run && holds)
        this.#world.violation("A2", `${id} was answered by ${consumer.tag} and ${run.tag}`);
      this.#consumers.set(id, run);
      this.#world.count("answer consumed");
    }
  }
}
