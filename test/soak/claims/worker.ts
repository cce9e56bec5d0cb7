/** One process of the claims soak: executes empty runs and prints each, until it is told to stop. */
import { openSync, writeSync } from "node:fs";
import process from "node:process";
import { postgres } from "../../../adapters/postgres/mod.ts";
import { recordStates } from "../../../lib/executor/state-recorder.ts";
import { createService, type Executor } from "../../../lib/mod.ts";
import type { Line, Mark } from "../executions.ts";

const [, , url = "", file = ""] = process.argv;
const log = openSync(file, "a");

const executor: Executor = {
  graphs: () => [{ graph_id: "trivial" }],
  execute: recordStates(async function* ({ run_id, thread_id, attempt }) {
    const token = crypto.randomUUID();
    const mark = (mark: Mark): void => {
      const of = { pid: process.pid, run: run_id, thread: thread_id, key: run_id, attempt, token, step: 0, version: 0 };
      writeSync(log, `${JSON.stringify({ at: Date.now(), mark, ...of } satisfies Line)}\n`);
    };
    mark("begin");
    try {
      await new Promise((resolve) => setImmediate(resolve));
      yield { type: "state", values: {}, next: [], tasks: [] };
    } finally {
      mark("end");
    }
  }),
};

const service = await createService({
  storage: postgres({ url, pool_size: 6 }),
  executor,
  // Processes that wait for a core must not lose what they hold.
  worker: { concurrency: 8, lease_ms: 30_000 },
});
// The service's own timers keep no process alive.
const alive = setInterval(() => {}, 60_000);
process.on("SIGTERM", async () => {
  await service.stop(5_000);
  clearInterval(alive);
  process.exit(0);
});
console.log("ready");
