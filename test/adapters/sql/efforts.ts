/** The share of the storage suite's random tests that each driver gets. Every other test of the suite runs in full. */
import process from "node:process";
import { describe, it } from "node:test";
import type { SuiteApi } from "../../suite/storage.ts";

/** `npm run test:all`. */
export const all: boolean = process.env.GREENROOM_TEST_ALL === "1";
export const onNode: boolean = !("Bun" in globalThis || "Deno" in globalThis);

/** Half of it in `npm test`. On Bun, which takes the least time for the same. */
export const whole: SuiteApi = all ? { describe, it } : { describe, it, effort: 0.5 };
/** The effort of drivers whose statements are slow, and of repetitions on another runtime: above the driver nothing differs there. */
export const least: SuiteApi = { describe, it, effort: 0.1 };
export const brief: SuiteApi = onNode && all ? { describe, it, effort: 0.3 } : least;
export const wholeOnNode: SuiteApi = !onNode ? least : all ? whole : { describe, it, effort: 0.2 };
