/** Durable functions under a clock that is set back or jumps ahead: times are those of the clock, and nobody holds a worker for them. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import type { AgentFunction } from "../../../lib/mod.ts";
import { type TestService, testClock, testService } from "../../suite/kit.ts";
import { keepAlive } from "../../support/alive.ts";
import { until } from "../../support/until.ts";

keepAlive();

const folder = mkdtempSync(join(tmpdir(), "steps-clock-"));
after(() => rmSync(folder, { recursive: true, force: true }));
let files = 0;

const HOUR_MS = 3_600_000;

/** The clock of a machine, which is set, and its timers, which go on as before. */
function machine() {
  const clock = testClock();
  const it = { skew: 0, clock, environment: { now: () => clock.now() + it.skew, timer: clock.timer } };
  return it;
}

type Machine = ReturnType<typeof machine>;

const open = ({ environment }: Machine, file: string, agent: AgentFunction): Promise<TestService> =>
  testService({ environment, storage: nodeSqlite(file), agents: { agent } });

const newFile = (): string => join(folder, `${++files}.db`);

/** Lets it run until the fact holds. */
const soon = ({ clock }: Machine, fact: () => Promise<boolean>): Promise<void> =>
  until(async () => {
    await clock.advance(60);
    return await fact();
  });

async function start(on: Machine, { service: { runs, threads } }: TestService) {
  const { thread_id } = await threads.create();
  const { run_id } = await runs.create(thread_id, { assistant_id: "agent", input: {} });
  await soon(on, async () => (await runs.get(thread_id, run_id)).waiting_for !== undefined);
  return { thread_id, run_id };
}

const VERBS: readonly (readonly [what: string, agent: AgentFunction])[] = [
  ["a sleep", async ({ sleep }) => await sleep("rest", "1m")],
  ["the time limit of a wait", async ({ wait }) => ({ got: await wait("parcel", { timeout: "1m" }) })],
  [
    "the next try of a step",
    async ({ step }) => {
      const work = ({ attempt }: { attempt: number }): void => {
        if (attempt === 1) throw new Error("not yet");
      };
      await step("pay", work, { retries: 1, backoff: "1m" });
    },
  ],
];

describe("a clock change during a wait", () => {
  for (const [what, agent] of VERBS) {
    it(`back by an hour keeps ${what} at its time, also after a restart`, async () => {
      const on = machine();
      const file = newFile();
      const first = await open(on, file, agent);
      const { thread_id, run_id } = await start(on, first);
      on.skew = -HOUR_MS;
      await on.clock.advance(90_000);
      assert.equal((await first.service.runs.get(thread_id, run_id)).status, "pending");
      await first.service.stop(0);
      await using kit = await open(on, file, agent);
      const { runs } = kit.service;
      await on.clock.advance(10_000);
      const waiting = await runs.get(thread_id, run_id);
      assert.equal(waiting.status, "pending");
      assert.equal(waiting.waiting_for?.length, 1);
      on.skew = 0;
      await soon(on, async () => (await runs.get(thread_id, run_id)).status === "success");
      const { steps } = await runs.steps(thread_id, run_id);
      assert.equal(steps.length, 1);
    });

    it(`ahead by an hour makes ${what} due once`, async () => {
      const on = machine();
      await using kit = await open(on, newFile(), agent);
      const { thread_id, run_id } = await start(on, kit);
      on.skew = HOUR_MS;
      await soon(on, async () => (await kit.service.runs.get(thread_id, run_id)).status === "success");
      on.skew = 0;
      await on.clock.advance(90_000);
      assert.equal((await kit.service.runs.list(thread_id)).length, 1);
    });
  }

  it("back by an hour releases the worker slot of a short sleep", async () => {
    const on = machine();
    const started = Promise.withResolvers<void>();
    await using kit = await open(on, newFile(), async ({ sleep }) => {
      started.resolve();
      await sleep("short", "1s");
    });
    const { service } = kit;
    const { thread_id } = await service.threads.create();
    const { run_id } = await service.runs.create(thread_id, { assistant_id: "agent", input: {} });
    await started.promise;
    await until(async () => (await service.runs.steps(thread_id, run_id)).steps.length === 1);
    // The run stays on its worker for a moment.
    await on.clock.advance(200);
    assert.equal((await service.metrics()).worker.executing, 1);
    on.skew = -HOUR_MS;
    await soon(on, async () => (await service.runs.get(thread_id, run_id)).waiting_for !== undefined);
    assert.equal((await service.metrics()).worker.executing, 0);
    on.skew = 0;
    await soon(on, async () => (await service.runs.get(thread_id, run_id)).status === "success");
  });

  it("back by an hour delays no event and no stop", async () => {
    const on = machine();
    const file = newFile();
    const agent: AgentFunction = async ({ wait }) => ({ got: await wait("parcel") });
    const first = await open(on, file, agent);
    const woken = await start(on, first);
    const stopped = await start(on, first);
    on.skew = -HOUR_MS;
    await first.service.threads.send(woken.thread_id, "parcel", 1);
    await first.service.runs.cancel(stopped.thread_id, stopped.run_id);
    // This process has a clock that is further behind.
    await first.service.stop(0);
    on.skew = -2 * HOUR_MS;
    await using kit = await open(on, file, agent);
    const { runs } = kit.service;
    await soon(on, async () => (await runs.get(woken.thread_id, woken.run_id)).status === "success");
    await soon(on, async () => (await runs.get(stopped.thread_id, stopped.run_id)).status === "interrupted");
  });
});
