/** What clients rely on: the SDKs on every runtime, each in one way of reaching a service. */
import { after, describe, it } from "node:test";
import { nodeSqlite } from "../../adapters/sqlite/node.ts";
import type { Storage } from "../../lib/storage/mod.ts";
import { sdkSuite } from "./sdk/mod.ts";
import { sharedStorage } from "./sdk/place.ts";
import { inProcess, overSocket, SDKS } from "./sdk/reach.ts";

let open = (): Storage => nodeSqlite(":memory:");
if ("Bun" in globalThis) {
  const { bunSqlite } = await import("../../adapters/sqlite/bun.ts");
  open = () => bunSqlite(":memory:");
}
describe("SQLite in memory", () => {
  const { place, close } = sharedStorage(open);
  after(close);
  // On Node the files prefix*.node.test.ts have the other two in process.
  const first = "Bun" in globalThis || "Deno" in globalThis ? "SDK 1.12.4" : "SDK 1.15.0";
  sdkSuite({ describe, it }, `${first} in process`, { Sdk: SDKS[first], open: inProcess, place });
  sdkSuite({ describe, it }, "SDK 2.0.0 over a socket", { Sdk: SDKS["SDK 2.0.0"], open: overSocket, place });
});
