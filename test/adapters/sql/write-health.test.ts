/** Checks that a service reports a full disk, and recovers once there is room again. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { postgresDriver } from "../../../adapters/postgres/mod.ts";
import type { SqlDriver } from "../../../adapters/sql/driver.ts";
import { sqlStorage } from "../../../adapters/sql/mod.ts";
import { nodeSqliteDriver } from "../../../adapters/sqlite/node.ts";
import { testService } from "../../suite/mod.ts";
import { startPostgres, type TestPostgres } from "../../support/postgres-server.ts";

/** The error of a server whose disk is full. */
const DISK_FULL = Object.assign(new Error("could not extend file: No space left on device"), { code: "53100" });
const URL_BASE = "http://greenroom";

/** A driver whose batches fail while `disk.full` is set. */
function onDisk(driver: SqlDriver, disk: { full: boolean }): SqlDriver {
  return {
    ...driver,
    async batch(...args) {
      if (disk.full) throw DISK_FULL;
      return await driver.batch(...args);
    },
  };
}

async function checkRecovery(driver: SqlDriver): Promise<void> {
  const disk = { full: false };
  let now = Date.UTC(2026, 0, 1);
  await using kit = await testService({
    agents: { echo: () => "Hi" },
    storage: sqlStorage(onDisk(driver, disk)),
    environment: { now: () => now },
  });
  const ready = async (): Promise<number> => {
    // The last answer counts for a second.
    now += 2_000;
    return (await kit.fetch(`${URL_BASE}/ready`)).status;
  };
  const create = async (): Promise<number> =>
    (await kit.fetch(`${URL_BASE}/threads`, { method: "POST", body: "{}" })).status;
  assert.deepEqual([await create(), await ready()], [200, 200]);
  disk.full = true;
  assert.deepEqual([await create(), await ready()], [507, 503]);
  disk.full = false;
  assert.deepEqual([await ready(), await create()], [200, 200]);
}

describe("after a full disk", () => {
  let server: TestPostgres;
  before(async () => {
    server = await startPostgres({ fsync: false });
  });
  after(() => server.stop());

  it("a service on Postgres is ready again once there is room", async () => {
    await checkRecovery(postgresDriver((await server.database()).url));
  });

  it("a service on SQLite is ready again once there is room", async () => {
    await checkRecovery(nodeSqliteDriver(":memory:"));
  });
});
