/** What clients rely on: both SDKs on every runtime, each in one way of reaching a service; on Node each in both. */
import { describe, it } from "node:test";
import { nodeSqlite } from "../../adapters/node-sqlite.ts";
import type { Storage } from "../../lib/storage.ts";
import { type Subject, sdkSuite } from "./sdk/mod.ts";
import { inProcess, overSocket, SDKS } from "./sdk/reach.ts";

const onNode = !("Bun" in globalThis || "Deno" in globalThis);
let open = (): Storage => nodeSqlite(":memory:");
if ("Bun" in globalThis) {
  const { bunSqlite } = await import("../../adapters/bun-sqlite.ts");
  open = () => bunSqlite(":memory:");
}
const place: Subject["place"] = () => ({ storage: open() });

for (const [name, Sdk] of Object.entries(SDKS)) {
  if (onNode || name === "SDK 1.12.4") {
    sdkSuite({ describe, it }, `${name} in process`, { Sdk, open: inProcess, place });
  }
  if (onNode || name === "SDK 2.0.0") {
    sdkSuite({ describe, it }, `${name} over a socket`, { Sdk, open: overSocket, place });
  }
}
