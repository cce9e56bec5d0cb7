/** Readers that poll threads whose runs execute: each read makes the process store what it has shown. */
import { Dice } from "../random.ts";
import type { World } from "../world.ts";

/** The number of reads of one reader in a seed. */
const READS = 150;

/** I6 and I16 hold however often a thread is read. */
export function startPollers(world: World): void {
  const { plan, scheduler } = world;
  for (let number = 0; number < plan.pollers; number++) {
    const dice = new Dice(plan.seed, `poller ${number}`);
    const poll = (remaining: number): void => {
      if (world.quiet || remaining === 0) return;
      const running = [...world.oracle.runs.byId.values()].filter(
        ({ fate, state, temporary }) => fate === "present" && state.status === "running" && !temporary,
      );
      const run = running.length > 0 ? dice.pick(running) : undefined;
      const node = run?.claims.at(-1)?.process.node;
      const next = (): void => void scheduler.at(dice.below(30), null, () => poll(remaining - 1));
      if (!run || !node) return void scheduler.at(dice.below(200), null, () => poll(remaining - 1));
      node.request((service) => service.threads.get(run.thread.thread_id)).then(next, next);
    };
    scheduler.at(dice.below(300), null, () => poll(READS));
  }
}
