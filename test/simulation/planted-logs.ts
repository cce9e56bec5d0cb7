// biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are pieces of code.
/** Faults to plant in what is stored of frames and events. */
import type { PlantedFault } from "./planted-platform.ts";

export const LOGS: readonly PlantedFault[] = [
  {
    name: "a read of the thread saves beside the end of its run",
    file: "lib/engine/progress-writer.ts",
    find: 'if (this.#state !== "open") return Promise.resolve();',
    replace: 'if (this.#state === "failed") return Promise.resolve();',
    test: "test/lib/engine/progress-writer.complete.test.ts",
  },
  {
    name: "a run between two attempts is ended without its worker",
    file: "adapters/sql/statements/runs-stop.ts",
    find: '${selectActive(p, selection, "pending")}) and claims = 0`',
    replace: '${selectActive(p, selection, "pending")}) and has_checkpoint = 0`',
  },
  {
    name: "writes are stored before the events that show them",
    file: "lib/executor/job-checkpoints.ts",
    find: "buffer.addWrites({ ...at, task_id, writes }, barrier.positionForState);",
    replace: "buffer.addWrites({ ...at, task_id, writes }, 0);",
    also: [
      {
        find: "buffer.addCheckpoint(cache.add(checkpoint, options.now()), barrier.positionForState);",
        replace: "buffer.addCheckpoint(cache.add(checkpoint, options.now()), 0);",
      },
    ],
  },
  {
    name: "events are stored before the writes that they show",
    file: "lib/executor/write-barrier.ts",
    find: "return Math.min(this.#closed + 1, this.#opened);",
    replace: "return this.#closed;",
    equivalent: "a step that is done again shows its message again",
  },
];
