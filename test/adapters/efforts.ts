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
 * Databases whose suites cost much are tested on each runtime, and PGlite with every client test, by
 *
 *   GREENROOM_EVERY_PAIR=1 npm test -- --file adapters/libsql --file adapters/postgres-storage --file sdk-postgres
 */
export const everyPair: boolean = process.env.GREENROOM_EVERY_PAIR === "1";

/** Whether such a database is tested here. */
export const costly: boolean = onNode || everyPair;
