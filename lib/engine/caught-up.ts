/** Reads of a thread on which a run executes: what its readers have been shown is stored first. */
import type { Environment } from "../environment.ts";
import type { Journal } from "./progress.ts";

export interface CaughtUpOptions {
  readonly environment: Environment;
  readonly journal: Pick<Journal, "behind" | "flush">;
  /** The worker records the states: what was shown is in the journal. */
  readonly recorded: boolean;
  /** The executor has settled, and the run's end is being stored; or nothing of it may be stored any more. */
  phase(): "executes" | "ends" | "lost";
  /** Resolves when the end is stored, or will not be. */
  readonly done: () => Promise<void>;
}

/** A store that answers late holds up no read for longer: it is answered with what is stored. */
const LONGEST_MS = 2_000;
/**
 * A graph with checkpoints of its own puts them in the turn of the event loop in which it shows a frame, or in the next. With
 * durability `sync` when a save is over: that of the subgraph in which a question was asked, and then its own.
 */
const OWN_SAVES = 3;
const OWN_TURNS = 2;

/** Resolves when what was shown is stored, or cannot be soon. */
export async function catchUp({ environment, journal, recorded, phase, done }: CaughtUpOptions): Promise<void> {
  const store = async (): Promise<void> => {
    for (let saves = recorded ? 1 : OWN_SAVES; saves > 0 && phase() === "executes"; saves--) {
      for (let turns = recorded ? 0 : OWN_TURNS; turns > 0; turns--) {
        await new Promise<void>((resolve) => environment.defer(resolve));
      }
      if (!journal.behind()) break;
      await journal.flush();
    }
    if (phase() === "ends") await done();
  };
  await new Promise<void>((resolve) => {
    const cancel = environment.timer(LONGEST_MS, resolve);
    void store().finally(() => {
      cancel();
      resolve();
    });
  });
}
