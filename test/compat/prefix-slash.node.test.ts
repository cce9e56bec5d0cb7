/** Runs the SDK suite below a prefix that ends with a slash: at the end of the mount and of the client's URL it makes no difference. */
import { after, describe, it } from "node:test";
import { nodeSqlite } from "../../adapters/sqlite/node.ts";
import { sdkSuite } from "./sdk/mod.ts";
import { inProcess, SDKS } from "./sdk/reach.ts";
import { sharedStorage } from "./sdk/shared-storage.ts";

const { createStorageOptions, close } = sharedStorage(() => nodeSqlite(":memory:"));
after(close);

sdkSuite({ describe, it }, "SDK 1.12.4 below /v1.2/~team_b-7/", {
  Sdk: SDKS["SDK 1.12.4"],
  open: inProcess,
  createStorageOptions,
  prefix: "/v1.2/~team_b-7/",
});
