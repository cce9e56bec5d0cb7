/** Runs the suite with each SDK, in process and over the sockets of every runtime. */
import process from "node:process";
import { after, describe, it } from "node:test";
import { nodeSqlite } from "../../adapters/sqlite/node.ts";
import type { Storage } from "../../lib/storage/mod.ts";
import { sdkSuite } from "./sdk/mod.ts";
import { inProcess, overSocket, SDKS } from "./sdk/reach.ts";
import { sharedStorage } from "./sdk/shared-storage.ts";

let open = (): Storage => nodeSqlite(":memory:");
if ("Bun" in globalThis) {
  const { bunSqlite } = await import("../../adapters/sqlite/bun.ts");
  open = () => bunSqlite(":memory:");
}
describe("SQLite in memory", () => {
  const { createStorageOptions, close } = sharedStorage(open);
  after(close);
  // `npm test` runs 1.15.0 in process on Deno, and 2.0.0 over the sockets of Bun, below a prefix; prefix.node.test.ts has both of Node.
  const runtime = "Bun" in globalThis ? "bun" : "Deno" in globalThis ? "deno" : "node";
  const some = process.env.GREENROOM_TEST_ALL === "0";
  const first = runtime === "bun" ? "SDK 1.12.4" : "SDK 1.15.0";
  if (!some || runtime !== "bun")
    sdkSuite({ describe, it }, `${first} in process`, { Sdk: SDKS[first], open: inProcess, createStorageOptions });
  if (!some && runtime === "node")
    sdkSuite({ describe, it }, "SDK 2.0.0 in process", {
      Sdk: SDKS["SDK 2.0.0"],
      open: inProcess,
      createStorageOptions,
    });
  const [where, below] = some ? [" below /api/agents", { prefix: "/api/agents" }] : ["", {}];
  const newest = { Sdk: SDKS["SDK 2.0.0"], open: overSocket, createStorageOptions, ...below };
  if (!some || runtime === "bun") sdkSuite({ describe, it }, `SDK 2.0.0 over a socket${where}`, newest);
});
