/** How much of the storage suite's random tests each driver gets: what differs only below a driver's own tests needs less. */
import process from "node:process";
import { describe, it } from "node:test";
import type { SuiteApi } from "../suite/storage.ts";

export const whole: SuiteApi = { describe, it };
export const brief: SuiteApi = { describe, it, effort: 0.3 };

const onNode = !("Bun" in globalThis || "Deno" in globalThis);

/** Above the driver nothing differs between runtimes. */
export const wholeOnNode: SuiteApi = onNode ? whole : brief;

/**
 * Whether a database runs here whose suite costs much: on Node always, on Bun and Deno with
 *
 *   GREENROOM_EVERY_PAIR=1 npm test -- --file adapters/libsql --file adapters/postgres-storage
 */
export const costly: boolean = onNode || process.env.GREENROOM_EVERY_PAIR === "1";
