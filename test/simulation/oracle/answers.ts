/** Which interrupts runs answer: each is answered once, by the run that was bound to it. */
import type { Job } from "../../../lib/executor/contract.ts";
import type { World } from "../world.ts";
import { isActiveStatus, type RunNote } from "./notes.ts";

export class Answers {
  readonly #world: World;
  readonly #runs: ReadonlyMap<string, RunNote>;
  /** By interrupt id, the last run that has consumed an answer to it. */
  readonly #consumers = new Map<string, RunNote>();

  constructor(world: World, runs: ReadonlyMap<string, RunNote>) {
    this.#world = world;
    this.#runs = runs;
  }

  /** A run was created beside others that are active. */
  accepted(run: RunNote, strategy: string, others: readonly RunNote[]): void {
    if (strategy === "rollback") return;
    for (const other of others) {
      const shared = run.targets.filter((id) => id !== null && other.targets.includes(id));
      if (shared.length === 0) continue;
      this.#world.violation("A1", `${run.tag} was accepted, and ${other.tag} answers ${shared.join()} already`);
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
      const other = this.#consumers.get(id);
      // A run that was stopped or failed has left its interrupt open.
      const holds =
        other?.fate === "present" && (isActiveStatus(other.state.status) || other.state.status === "success");
      if (other && other !== run && holds)
        this.#world.violation("A2", `${id} was answered by ${other.tag} and ${run.tag}`);
      this.#consumers.set(id, run);
      this.#world.count("answer consumed");
    }
  }
}
