/** Read consistency on a busy thread: stores what subscribers were shown before a read of the thread is answered. */
import { type Environment, nextTurn } from "../environment.ts";
import type { ProgressWriter } from "./progress.ts";

export interface FlushOptions {
  readonly environment: Environment;
  readonly progress: Pick<ProgressWriter, "isBehind" | "flush">;
  phase(): "executing" | "ending" | "lost";
  /** Resolves when the end of the run is stored, or will not be. */
  readonly done: Promise<void>;
}

/** A slow store delays a read by at most this long. The read then sees what is stored. */
const LONGEST_MS = 2_000;
/**
 * LangGraph puts a checkpoint within two turns of the event loop after it shows a frame. With durability `sync` an interrupt in a
 * subgraph takes a save for the subgraph and one for its parent.
 */
const SAVES = 3;
const TURNS = 2;

/** Resolves when everything shown is stored, or cannot be stored soon. */
export async function flushShown({ environment, progress, phase, done }: FlushOptions): Promise<void> {
  const store = async (): Promise<void> => {
    for (let saves = SAVES; saves > 0 && phase() === "executing"; saves--) {
      for (let turns = TURNS; turns > 0; turns--) await nextTurn(environment);
      if (!progress.isBehind()) break;
      await progress.flush();
    }
    if (phase() === "ending") await done;
  };
  await new Promise<void>((resolve) => {
    const cancel = environment.timer(LONGEST_MS, resolve);
    void store().finally(() => {
      cancel();
      resolve();
    });
  });
}
