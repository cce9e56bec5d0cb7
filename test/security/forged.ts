/**
 * Sends forged feedback tokens to a service and tells what they were answered.
 *
 *   node test/security/forged.ts [--tokens 1000000] [--seed 1]
 *
 * Exit code 0: every kind of request got one and the same 404, and nothing was recorded.
 */
import { parseArgs } from "node:util";
import { forgeryWorld } from "./forgery.ts";

const { values } = parseArgs({
  options: { tokens: { type: "string", default: "1000000" }, seed: { type: "string", default: "1" } },
});
const tokens = Number(values.tokens);
const seed = Number(values.seed);
if (!Number.isSafeInteger(tokens) || tokens < 1 || !Number.isSafeInteger(seed)) {
  console.error("--tokens and --seed: give whole numbers");
  process.exit(2);
}
const alive = setInterval(() => {}, 60_000);
const started = performance.now();
await using world = await forgeryWorld();
const { tried, answers, recorded } = await world.forge(tokens, seed);
const seconds = ((performance.now() - started) / 1000).toFixed(1);
for (const [kind, responseCounts] of answers) {
  for (const [answer, id] of responseCounts) console.log(`${kind}: ${answer} (first: ${id.slice(0, 80)})`);
}
const same = [...answers.values()].every(
  (responseCounts) => responseCounts.size <= 1 && [...responseCounts.keys()].every((text) => text.startsWith("[404,")),
);
console.log(
  `${tried} forged tokens, ${recorded} records, ${same ? "one answer each" : "DIFFERENT ANSWERS"}, ${seconds} s`,
);
process.exitCode = same && recorded === 0 ? 0 : 1;
clearInterval(alive);
