/** Simulated clients: their requests, the responses, and the checks of both. */
import { GRAPHS } from "../agent.ts";
import { Dice } from "../random.ts";
import type { World } from "../world.ts";
import { answer } from "./answer.ts";
import { Caller } from "./caller.ts";
import { create, repeat, replaceLater } from "./create.ts";
import { submitFeedback } from "./feedback.ts";
import { join } from "./follow.ts";
import { cancel, cancelMany, deleteRun } from "./stop.ts";
import { talk } from "./talk.ts";
import { deleteThread, look, touchThread, watchThread } from "./thread.ts";

/** The actions of a client, with their weights among the requests that stop or look at something. */
const ACTS: readonly (readonly [weight: number, act: (caller: Caller) => Promise<void>])[] = [
  [30, create],
  [10, answer],
  [20, cancel],
  [6, cancelMany],
  [8, deleteRun],
  [5, deleteThread],
  [6, updateAssistant],
  [9, join],
  [4, watchThread],
  [4, repeat],
  [12, submitFeedback],
  [12, replaceLater],
  [2, touchThread],
  [6, look],
];

/** A client that makes its requests one after the other. */
export class Client extends Caller {
  /** It makes no more requests. */
  idle = false;

  start(): void {
    this.#work().catch((error: unknown) => {
      this.world.show(String((error as Error).stack ?? error));
      this.world.violation("simulation", `${this.name} failed: ${String(error)}`);
    });
  }

  async #work(): Promise<void> {
    const { plan } = this.world;
    for (let i = 0; i < plan.requests; i++) {
      await this.sleep(this.dice.below(plan.think_ms));
      await (this.dice.chance(plan.conflict) ? this.#any() : create)(this);
      if (plan.talks) await talk(this);
    }
    this.idle = true;
    this.doing = "nothing";
  }

  #any(): (caller: Caller) => Promise<void> {
    let roll = this.dice.below(ACTS.reduce((sum, [weight]) => sum + weight, 0));
    for (const [weight, act] of ACTS) {
      roll -= weight;
      if (roll < 0) return act;
    }
    return create;
  }
}

export function createClients(world: World): readonly Client[] {
  const dice = new Dice(world.plan.seed, "threads");
  const threads = Array.from({ length: world.plan.threads }, () => dice.uuid());
  return Array.from({ length: world.plan.clients }, (_, i) => new Client(world, `c${i}`, threads));
}

async function updateAssistant(caller: Caller): Promise<void> {
  const graph = caller.dice.pick(GRAPHS);
  const v = caller.dice.below(1_000_000);
  caller.world.note(`${caller.name} updates ${graph}`);
  await caller.ask("update assistant", (service) => service.assistants.update(graph, { context: { v } }), true);
}
