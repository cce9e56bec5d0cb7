/** How much of the storage suite's random tests each driver gets: what differs only below a driver's own tests needs less. */
import { describe, it } from "node:test";
import type { SuiteApi } from "../suite/storage.ts";

export const whole: SuiteApi = { describe, it };
export const brief: SuiteApi = { describe, it, effort: 0.3 };
/** Where each statement costs much. */
export const least: SuiteApi = { describe, it, effort: 0.1 };

/** Above the driver nothing differs between runtimes. */
export const wholeOnNode: SuiteApi = "Bun" in globalThis || "Deno" in globalThis ? brief : whole;
