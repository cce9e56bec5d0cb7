/** How much of the storage suite's random tests each driver gets: what differs only below a driver's own tests needs less. */
import { describe, it } from "node:test";
import type { SuiteApi } from "../suite/storage.ts";

export const whole: SuiteApi = { describe, it };
/** Where each statement costs much, and again on another runtime: above the driver nothing differs there. */
export const least: SuiteApi = { describe, it, effort: 0.1 };

const onNode = !("Bun" in globalThis || "Deno" in globalThis);
export const brief: SuiteApi = onNode ? { describe, it, effort: 0.3 } : least;
export const wholeOnNode: SuiteApi = onNode ? whole : least;
