/** What clients rely on: both SDKs on every runtime, each in one way of reaching a service. */
import { describe, it } from "node:test";
import { nodeSqlite } from "../../adapters/node-sqlite.ts";
import type { Storage } from "../../lib/storage.ts";
import { type Subject, sdkSuite } from "./sdk/mod.ts";
import { inProcess, overSocket, SDKS } from "./sdk/reach.ts";

let open = (): Storage => nodeSqlite(":memory:");
if ("Bun" in globalThis) {
  const { bunSqlite } = await import("../../adapters/bun-sqlite.ts");
  open = () => bunSqlite(":memory:");
}
const place: Subject["place"] = () => ({ storage: open() });

sdkSuite({ describe, it }, "SDK 1.12.4 in process", { Sdk: SDKS["SDK 1.12.4"], open: inProcess, place });
sdkSuite({ describe, it }, "SDK 2.0.0 over a socket", { Sdk: SDKS["SDK 2.0.0"], open: overSocket, place });
