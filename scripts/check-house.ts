/**
 * Prints how large the tree is, against its goals, and which retired names and phrases it still has. Exit code 1 when a limit of
 * scripts/house-limits.json is exceeded, and when a goal of scripts/house-goals.ts is missed for no stated reason.
 *
 *   node scripts/check-house.ts [--list] [--lower | --write]
 *
 *   --list     shows everything that is counted, such as files and lines
 *   --lower    lowers the limits to today's figures
 *   --write    raises limits too. A commit that raises one says what for.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { build } from "esbuild";
import { type Figure, measure, sourcesOf } from "./house.ts";
import { GOALS } from "./house-goals.ts";
import { countNames, countPhrases } from "./house-words.ts";
import { PHRASE_SOURCES, RETIRED_NAMES } from "./retired-names.ts";

/** A figure may not exceed its limit. Without a limit it must be 0. */
export type Limits = Readonly<Record<string, Readonly<Record<string, number>>>>;

export interface Limited {
  readonly key: string;
  readonly title: string;
  /** Folders have a budget and no goal. */
  readonly goal?: number;
  /** Why the figure may be above its goal, up to its limit. */
  readonly missed?: string;
  readonly figure: Figure;
}

export interface Verdict {
  readonly lines: readonly string[];
  readonly failed: number;
  /** The limits, lowered to the figures, and those that the figures need. */
  readonly lowered: Readonly<Record<string, number>>;
  readonly needed: Readonly<Record<string, number>>;
}

const number = (value: number): string => value.toLocaleString("en");

function stateOf(goal: number | undefined, reached: boolean): string {
  if (goal === undefined) return "";
  return reached ? "reached" : "missed";
}

/** One line of the table for each figure, problems and hints below it. `list` shows what is counted even where nothing failed. */
export function judge(rows: readonly Limited[], limits: Readonly<Record<string, number>>, list = false): Verdict {
  const lines: string[] = [];
  const lowered: Record<string, number> = {};
  const needed: Record<string, number> = {};
  let failed = 0;
  for (const { key, title, goal, missed, figure } of rows) {
    const limit = limits[key] ?? 0;
    const reached = goal === undefined || figure.value <= goal;
    const over = figure.value > limit || !(reached || missed);
    if (over) failed += 1;
    // What is better than its goal may grow up to it again.
    const need = Math.max(goal ?? 0, figure.value);
    const lowest = Math.min(limit, need);
    if (lowest > 0) lowered[key] = lowest;
    if (need > 0) needed[key] = need;
    // A name that is gone needs no line. The rows of the house are always shown.
    if (!list && !(key in GOALS) && goal === 0 && limit === 0 && figure.value === 0) continue;
    const state = over ? "FAILED" : stateOf(goal, reached);
    const shownGoal = goal === undefined ? "" : number(goal);
    lines.push(`| ${title} | ${number(figure.value)} | ${number(limit)} | ${shownGoal} | ${state} |`);
    if (!reached && missed) lines.push(`    Missed: ${missed}`);
    if (over || list) lines.push(...figure.found.map((text) => `    ${text}`));
    if (lowest < limit) lines.push(`    Lower the limit to ${lowest}: node scripts/check-house.ts --lower`);
  }
  return { lines, failed, lowered, needed };
}

/** Bytes of these entries in the bundle of a program that embeds them: the entry chunk with what it imports statically. */
export async function bundleOf(root: string, entries: readonly string[]): Promise<number> {
  const { metafile } = await build({
    stdin: {
      contents: entries.map((entry) => `export * from ${JSON.stringify(join(root, entry))};\n`).join(""),
      resolveDir: root,
    },
    bundle: true,
    splitting: true,
    format: "esm",
    minify: true,
    metafile: true,
    outdir: join(root, "dist"),
    platform: "neutral",
    external: ["node:*"],
    mainFields: ["module", "main"],
    logLevel: "silent",
    write: false,
  });
  const { outputs } = metafile;
  const loaded = new Set(Object.keys(outputs).filter((name) => outputs[name]?.entryPoint === "<stdin>"));
  for (const name of loaded) {
    for (const { path, kind } of outputs[name]?.imports ?? [])
      if (kind === "import-statement" && outputs[path]) loaded.add(path);
  }
  return [...loaded].reduce((sum, name) => sum + (outputs[name]?.bytes ?? 0), 0);
}

/** The figures of a tree: the house's, one for each folder, and one for each retired name and for the phrases of each place. */
export async function figuresOf(root: string): Promise<Record<"house" | "folders" | "names" | "phrases", Limited[]>> {
  const { rows, folders } = measure(root);
  const sources = sourcesOf(root);
  const bundle = async (...entries: string[]): Promise<Figure> => ({ value: await bundleOf(root, entries), found: [] });
  const measured: Record<string, Figure> = {
    ...rows,
    core_bundle: await bundle("lib/mod.ts"),
    handler_bundle: await bundle("lib/mod.ts", "lib/http/handler.ts"),
  };
  const names = countNames(sources);
  const phrases = countPhrases(root, sources);
  return {
    house: Object.entries(GOALS).map(([key, row]) => ({ ...row, key, figure: measured[key] as Figure })),
    folders: [...folders].sort().map(([key, value]) => ({ key, title: key, figure: { value, found: [] } })),
    names: RETIRED_NAMES.map(({ name, use }) => {
      return { key: name, title: `${name} (use ${use})`, goal: 0, figure: names.get(name) as Figure };
    }),
    phrases: PHRASE_SOURCES.map((key) => ({ key, title: key, goal: 0, figure: phrases[key] })),
  };
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: { list: { type: "boolean" }, lower: { type: "boolean" }, write: { type: "boolean" } },
  });
  const file = resolve("scripts/house-limits.json");
  const limits = JSON.parse(readFileSync(file, "utf8")) as Limits;
  const written: Record<string, Verdict["lowered"]> = {};
  let failed = 0;
  for (const [kind, rows] of Object.entries(await figuresOf(resolve(".")))) {
    const verdict = judge(rows, limits[kind] ?? {}, values.list);
    failed += verdict.failed;
    written[kind] = values.write ? verdict.needed : verdict.lowered;
    console.log([`| ${kind} | now | limit | goal | |`, "|---|---|---|---|---|", ...verdict.lines, ""].join("\n"));
  }
  if (values.lower || values.write) writeFileSync(file, `${JSON.stringify(written, null, 2)}\n`);
  console.log(`${failed} limits exceeded or goals missed`);
  process.exitCode = failed > 0 ? 1 : 0;
}
