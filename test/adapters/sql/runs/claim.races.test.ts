/** Checks the result of a claim if rows change between its read and its write. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { sqlStorage } from "../../../../adapters/sql/mod.ts";
import { nodeSqliteDriver } from "../../../../adapters/sqlite/node.ts";
import type { Storage } from "../../../../lib/storage/mod.ts";
import {
  claimNext,
  claimTerms,
  createAssistant,
  createClaimedRun,
  createPendingRun,
  createThread,
  finish,
  here,
  newRun,
  request,
} from "../../../suite/storage/material.ts";

/** Two processes on one database. `meanwhile` happens once, after the next thing that the slow one reads. */
async function openTwoProcesses(): Promise<
  { readonly slow: Storage; readonly quick: Storage; meanwhile: (() => Promise<unknown>) | null } & AsyncDisposable
> {
  const { acquireWorkerLock: _alone, ...driver } = nodeSqliteDriver(":memory:");
  const quick = sqlStorage(driver);
  await quick.migrate();
  const slow = sqlStorage({
    ...driver,
    async read(statement) {
      const rows = await driver.read(statement);
      const then = world.meanwhile;
      world.meanwhile = null;
      await then?.();
      return rows;
    },
  });
  const world: Awaited<ReturnType<typeof openTwoProcesses>> = {
    slow,
    quick,
    meanwhile: null,
    [Symbol.asyncDispose]: () => driver.close(),
  };
  return world;
}

describe("a claim whose rows change after its read", () => {
  it("leases no run that another process has leased meanwhile, and takes the next one instead", async () => {
    await using world = await openTwoProcesses();
    const { slow, quick } = world;
    const assistant = await createAssistant(quick);
    for (const id of ["t", "u"]) {
      await createThread(quick, id);
      await createPendingRun(quick, assistant, id, `${id}1`);
    }
    let otherToken: string | undefined;
    world.meanwhile = async () => {
      otherToken = (await claimNext(quick, here, claimTerms("quick")))?.run.run_id;
    };
    const ownRunId = (await claimNext(slow, here, claimTerms("slow")))?.run.run_id;
    assert.deepEqual([otherToken, ownRunId], ["t1", "u1"]);
  });

  it("leases no run that is not its thread's next any more, because an earlier one is due", async () => {
    await using world = await openTwoProcesses();
    const { slow, quick } = world;
    const assistant = await createAssistant(quick);
    await createThread(quick, "t");
    const later = await request(quick, assistant, "t", "later");
    await quick.createRun(here, { ...later, run: newRun("t", "later", { created_at: 4000 }) });
    await createPendingRun(quick, assistant, "t", "now");
    world.meanwhile = async () => {
      const { run } = (await claimNext(quick, here, { ...claimTerms("quick"), now: 4000 })) ?? {};
      assert.equal(run?.run_id, "later");
    };
    assert.equal((await slow.claimRun(here, claimTerms("slow"))).kind, "blocked");
    assert.equal((await quick.getRun(here, "now"))?.status, "pending");
    assert.equal((await quick.getThread(here, "t"))?.running, "later");
  });

  it("does not take over a lease that was renewed meanwhile", async () => {
    await using world = await openTwoProcesses();
    const { slow, quick } = world;
    await createThread(quick, "t");
    const { lease } = await createClaimedRun(quick, await createAssistant(quick), "t", "r");
    world.meanwhile = () => quick.renewLease(here, lease, 9000);
    assert.notEqual((await slow.claimRun(here, { ...claimTerms("slow"), now: 5000 })).kind, "claimed");
    const run = await quick.getRun(here, "r");
    assert.deepEqual([run?.status, run?.claims], ["running", 1]);
    assert.ok(await quick.renewLease(here, lease, 9001));
  });

  it("does not take over a run that has ended meanwhile", async () => {
    await using world = await openTwoProcesses();
    const { slow, quick } = world;
    await createThread(quick, "t");
    const { lease } = await createClaimedRun(quick, await createAssistant(quick), "t", "r");
    world.meanwhile = () => quick.finishRun(here, lease, finish());
    assert.equal((await slow.claimRun(here, { ...claimTerms("slow"), now: 5000 })).kind, "none");
    assert.equal((await quick.getRun(here, "r"))?.status, "success");
  });
});
