/**
 * Prints the figures of scripts/code-limits.ts beside their limits, and the retired names and phrases that are still in use. Exit code 1 when
 * a limit is exceeded for no stated reason, or when a retired name or phrase is used.
 *
 *   node scripts/check-code-limits.ts [--list]     with the locations that are counted
 */
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { type Figure, measureCode } from "./code-limits.ts";
import { findRetiredNames, findRetiredPhrases } from "./find-retired-names.ts";
import { readSources } from "./sources.ts";

export interface CodeLimitsReport {
  readonly lines: readonly string[];
  readonly failed: number;
}

/** Returns a line of the table for each figure, with the reason or the locations below it. */
export function judgeFigures(figures: readonly Figure[], list = false): CodeLimitsReport {
  const lines = ["| figure | now | limit | |", "|---|---|---|---|"];
  let failed = 0;
  for (const { title, value, limit, locations = [], reason } of figures) {
    const isMissed = limit !== undefined && value > limit;
    const isFailed = isMissed && reason === undefined;
    if (isFailed) failed += 1;
    const verdict = isFailed ? "FAILED" : describeVerdict(limit, isMissed);
    lines.push(`| ${title} | ${value.toLocaleString("en")} | ${limit?.toLocaleString("en") ?? ""} | ${verdict} |`);
    if (isMissed && reason !== undefined) lines.push(`    ${reason}`);
    if (isFailed || list) lines.push(...locations.map((location) => `    ${location}`));
  }
  return { lines, failed };
}

function describeVerdict(limit: number | undefined, isMissed: boolean): string {
  if (limit === undefined) return "";
  return isMissed ? "missed" : "met";
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { list: { type: "boolean" } } });
  const root = resolve(".");
  const { lines, failed } = judgeFigures(await measureCode(root), values.list);
  console.log(lines.join("\n"));
  const sources = readSources(root);
  const words = [...findRetiredNames(sources), ...findRetiredPhrases(root, sources)];
  for (const word of words) console.log(word);
  console.log(`${failed} limits exceeded, ${words.length} retired names and phrases`);
  process.exitCode = failed + words.length > 0 ? 1 : 0;
}
