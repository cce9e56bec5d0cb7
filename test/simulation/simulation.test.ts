import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { simulateDurable } from "./durable/simulate.ts";
import { PLANTED, plant } from "./planted.ts";
import { simulate } from "./simulate.ts";

const RUNTIMES: Readonly<Record<string, readonly string[]>> = {
  bun: [],
  deno: ["run", "-A", "--no-check"],
  node: [],
};
const runtime: "bun" | "deno" | "node" = "Bun" in globalThis ? "bun" : "Deno" in globalThis ? "deno" : "node";
const folder = fileURLToPath(new URL(".", import.meta.url));
/** The number of seeds of a test: few, so that none takes long on a machine with other work. */
const PART = 2;
const all = process.env.GREENROOM_TEST_ALL === "1";
/** Each runtime has its own seeds in `npm run test:all`, which runs 2,000. `npm test` runs them on Bun, the fastest. */
const SEEDS = all ? { bun: 1_400, deno: 300, node: 300 }[runtime] : { bun: 120, deno: 0, node: 0 }[runtime];
/** `npm test` gives every commit other seeds, and prints the first. */
const ALL_FROM = Number(process.env.GREENROOM_TEST_SEED ?? 1);
const FIRST = ALL_FROM + { bun: 0, deno: 1_400, node: 1_700 }[runtime];
/** How many of the first seeds, in which Bun finds nothing, go the same way on each runtime. */
const COMPARED = all ? 20 : 10;

describe("simulation", () => {
  for (let from = FIRST; from < FIRST + SEEDS; from += PART) {
    const end = Math.min(from + PART, FIRST + SEEDS);
    it(`finds no violation in seeds ${from} to ${end - 1}`, async () => {
      for (let seed = from; seed < end; seed++) {
        const { violations, trace } = await simulate(seed);
        const replay = `node test/simulation/main.ts --seed ${seed} --trace`;
        const text = violations.map(({ rule, text }) => `${rule}: ${text}`).join("\n");
        assert.equal(violations.length, 0, `${text}\nreplay: ${replay}\n${trace.join("\n")}`);
      }
    });
  }

  for (let from = FIRST; from < FIRST + SEEDS / 4; from += PART) {
    it(`finds no violation in durable functions, seeds ${from} to ${from + PART - 1}`, async () => {
      for (let seed = from; seed < from + PART; seed++) {
        const { violations, trace } = await simulateDurable(seed);
        const text = violations.map(({ rule, text }) => `${rule}: ${text}`).join("\n");
        assert.equal(violations.length, 0, `${text}\nreplay: --durable --seed ${seed}\n${trace.join("\n")}`);
      }
    });
  }

  // The comparison of the runtimes shows it for the others.
  if (runtime === "bun" || all) {
    it("finds no violation in seeds that once failed", async () => {
      const seeds = [
        1_165_631, 15_500_589, 15_501_087, 15_501_383, 6_420_732, 7_000_317, 8_904_618, 9_418_970, 9_537_063,
        13_436_461, 73_001_824, 76_002_694,
      ];
      for (const seed of seeds) assert.deepEqual((await simulate(seed)).violations, []);
      const durable = [7_003_713, 8_001_512, 20_000_697, 40_000_682];
      for (const seed of durable) assert.deepEqual((await simulateDurable(seed)).violations, []);
    });

    it("repeats a seed with the same events", async () => {
      for (let seed = FIRST; seed < FIRST + 4; seed++) {
        const [first, again] = [await simulate(seed), await simulate(seed)];
        assert.equal(again.hash, first.hash, `seed ${seed}`);
      }
    });
  }

  // One of them asks the others.
  if (runtime === "node") {
    it("repeats a seed with the same events on every runtime", async () => {
      const [first, ...otherHashes] = await Promise.all(Object.keys(RUNTIMES).map(hashes));
      assert.equal(first?.length, COMPARED);
      for (const runtimeHashes of otherHashes) assert.deepEqual(runtimeHashes, first);
    });
  }

  it("finds the text of every planted fault in the code", () => {
    assert.ok(PLANTED.length >= 15);
    for (const fault of PLANTED) {
      assert.notEqual(plant(fault), "");
      if (fault.test) assert.ok(existsSync(join(folder, "../..", fault.test)), `${fault.name}: no ${fault.test}`);
    }
  });
});

/** Seeds with their hashes, as a runtime prints them. */
function hashes(name: string): Promise<readonly string[]> {
  const program = join(folder, "../../node_modules/.bin", name);
  const args = [
    ...(RUNTIMES[name] ?? []),
    join(folder, "main.ts"),
    "--from",
    String(ALL_FROM),
    "--seeds",
    String(COMPARED),
    "--hashes",
  ];
  const child = spawn(name === "node" ? process.execPath : program, args, { stdio: ["ignore", "pipe", "inherit"] });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", () => resolve(output.split("\n").filter((line) => /^\d+ [0-9a-f]{16}$/.test(line))));
  });
}
