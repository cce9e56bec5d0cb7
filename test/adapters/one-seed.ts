/** The storage suite with one seed of each random test: those that differ only below a driver's own tests need no more. */
import { describe, it } from "node:test";
import type { SuiteApi } from "../suite/storage.ts";

export const oneSeed: SuiteApi = {
  describe,
  it: (name, fn) => (/seed \d+$/.test(name) && !/ seed 1$/.test(name) ? undefined : it(name, fn)),
};

/** On Node all seeds, on the other runtimes one. */
export const seedsOf: SuiteApi = "Bun" in globalThis || "Deno" in globalThis ? oneSeed : { describe, it };
