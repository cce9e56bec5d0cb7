/**
 * Prints the figures of scripts/house.ts beside their goals, and the retired names and phrases that are still in use. Exit code 1 when
 * a goal is missed for no stated reason, or when a retired name or phrase is used.
 *
 *   node scripts/check-house.ts [--list]     with the places that are counted
 */
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { type Figure, measureHouse } from "./house.ts";
import { findNames, findPhrases } from "./house-words.ts";
import { readSources } from "./sources.ts";

export interface Verdict {
  readonly lines: readonly string[];
  readonly failed: number;
}

/** Makes a line of the table for each figure, with the reason or the places below it. */
export function judge(figures: readonly Figure[], list = false): Verdict {
  const lines = ["| figure | now | goal | |", "|---|---|---|---|"];
  let failed = 0;
  for (const { title, value, goal, places = [], reason } of figures) {
    const isMissed = goal !== undefined && value > goal;
    const isFailed = isMissed && reason === undefined;
    if (isFailed) failed += 1;
    const verdict = isFailed ? "FAILED" : describeGoal(goal, isMissed);
    lines.push(`| ${title} | ${value.toLocaleString("en")} | ${goal?.toLocaleString("en") ?? ""} | ${verdict} |`);
    if (isMissed && reason !== undefined) lines.push(`    ${reason}`);
    if (isFailed || list) lines.push(...places.map((place) => `    ${place}`));
  }
  return { lines, failed };
}

function describeGoal(goal: number | undefined, isMissed: boolean): string {
  if (goal === undefined) return "";
  return isMissed ? "missed" : "met";
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { list: { type: "boolean" } } });
  const root = resolve(".");
  const { lines, failed } = judge(await measureHouse(root), values.list);
  console.log(lines.join("\n"));
  const sources = readSources(root);
  const words = [...findNames(sources), ...findPhrases(root, sources)];
  for (const word of words) console.log(word);
  console.log(`${failed} goals missed, ${words.length} retired names and phrases`);
  process.exitCode = failed + words.length > 0 ? 1 : 0;
}
