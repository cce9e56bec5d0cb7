import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import { testService } from "../../suite/kit.ts";
import { at, firings, loopTicks, minutely, until, world } from "./loop.harness.ts";

describe("a service with crons", () => {
  it("reports the feature in /info", async () => {
    await using w = await world();
    const { service } = await w.open();
    assert.equal((await service.info()).flags.crons, true);
  });

  it("keeps firings for thirty days", async () => {
    await using w = await world();
    const { service } = await w.open();
    const { cron_id } = await service.crons.create(null, minutely);
    await at(w, "2026-11-20T15:28:00Z");
    await service.crons.update(cron_id, { enabled: false });
    await at(w, "2026-12-20T15:28:00Z");
    assert.deepEqual(await firings(w, cron_id), ["15:28:00 fired"]);
    await at(w, "2026-12-20T17:00:00Z");
    assert.deepEqual(await firings(w, cron_id), []);
  });

  it("refuses invalid options", async () => {
    for (const crons of [{ misfire_grace_ms: -1 }, { max_failures: 0 }, { enabled: 1 }, { every: 1 }]) {
      const storage = nodeSqlite(":memory:");
      const creation = testService({ storage, crons: crons as never, agents: { async *echo() {} } });
      await assert.rejects(creation, new RegExp(`crons\\.${Object.keys(crons)[0]}: `));
      await storage.close();
    }
  });

  it("completes a firing that is being stored when it stops", async () => {
    await using w = await world();
    const { service, faulty } = await w.open();
    const { cron_id } = await service.crons.create(null, minutely);
    const gate = Promise.withResolvers<void>();
    faulty.faults.fireCron = async (call) => {
      await gate.promise;
      return await call();
    };
    await at(w, "2026-11-20T15:28:00Z");
    let stopped = false;
    const stop = service.stop(0).then(() => {
      stopped = true;
    });
    await loopTicks();
    assert.equal(stopped, false);
    gate.resolve();
    await until(() => stopped);
    await stop;
    assert.deepEqual(await firings(w, cron_id), ["15:28:00 fired"]);
    await at(w, "2026-11-20T15:35:00Z");
    assert.deepEqual(await firings(w, cron_id), ["15:28:00 fired"]);
  });
});
