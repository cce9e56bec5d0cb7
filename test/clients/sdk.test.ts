import { describe, it } from "node:test";
import { nodeSqlite } from "../../adapters/node-sqlite.ts";
import { type Subject, sdkSuite } from "./sdk/mod.ts";
import { inProcess, overSocket, SDKS } from "./sdk/reach.ts";

const place: Subject["place"] = () => ({ storage: nodeSqlite(":memory:") });

for (const [name, Sdk] of Object.entries(SDKS)) {
  sdkSuite({ describe, it }, `${name} in process`, { Sdk, open: inProcess, place });
  sdkSuite({ describe, it }, `${name} over a socket`, { Sdk, open: overSocket, place });
}
