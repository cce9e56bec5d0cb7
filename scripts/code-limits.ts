/**
 * Measures the tree: how much of it is hard to read, and how large its bundles are. Biome, dependency-cruiser and knip say where a rule
 * is broken; these are figures to read.
 */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { countCodeLines, readSources, type Source } from "./sources.ts";
import { listStorageOperations } from "./storage-operations.ts";

export interface Figure {
  readonly title: string;
  readonly value: number;
  /** The maximum. A figure without a limit is printed and not judged. */
  readonly limit?: number;
  /** The locations that are counted. */
  readonly locations?: readonly string[];
  /** The reason why the figure may be above its limit. */
  readonly reason?: string;
}

const isPage = (path: string): boolean => path.startsWith("adapters/studio/page/");

function countMatches(sources: readonly Source[], pattern: RegExp): Pick<Figure, "value" | "locations"> {
  const locations = sources.flatMap(({ path, text }) =>
    text.split("\n").flatMap((line, index) => (line.match(pattern) ?? []).map(() => `${path}:${index + 1}`)),
  );
  return { value: locations.length, locations };
}

/** Counts the functions that are excepted from a rule of Biome, for each 1,000 lines of code. */
function countExceptions(sources: readonly Source[], lines: number, rule: string): Pick<Figure, "value" | "locations"> {
  const { value, locations = [] } = countMatches(sources, new RegExp(`biome-ignore ${rule}:`, "g"));
  return { value: Math.round((value / lines) * 10_000) / 10, locations };
}

/** Members of LangGraph that its documentation does not name. */
const UNDOCUMENTED = /\b(?:getWriters|getNode|_write|_defaults)\b|bound\.constructor|lc:child_config/;

/** Returns the section of docs/architecture.md on one streamed run, and the files of lib that it lists, as often as it names them. */
export function readStreamedRun(page: string): { readonly section: string; readonly files: readonly string[] } {
  const section = page.split(/^## /m).find((part) => part.startsWith("One streamed run\n")) ?? "";
  return { section, files: section.match(/(?<=`)lib\/[\w/-]+\.ts(?=`)/g) ?? [] };
}

/** Returns the files of lib that one streamed run executes. A test compares the list with the coverage of a run. */
export const listStreamedRunFiles = (page: string): string[] => [...new Set(readStreamedRun(page).files)];

/** Returns the bytes of a bundle of these entries: the entry chunk and the chunks that it imports statically. */
export async function measureBundle(root: string, entries: readonly string[]): Promise<number> {
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

/** Measures the tree in this folder. */
export async function measureCode(root: string): Promise<Figure[]> {
  const sources = readSources(root);
  const read = (path: string): string => readFileSync(join(root, path), "utf8");
  const lines = sources.reduce((sum, { text }) => sum + countCodeLines(text), 0);
  const core = sources.filter(({ path }) => !isPage(path));
  const endpoints = sources.filter(({ path }) => path.startsWith("lib/http/endpoints/"));
  const undocumented = countMatches(
    sources.filter(({ path }) => path.startsWith("adapters/langgraph/")),
    UNDOCUMENTED,
  );
  const scripts = globSync(
    "scripts/{code-limits,find-retired-names,check-code-limits,language,fragments,check-language,sources,storage-operations}.ts",
    { cwd: root },
  );
  const exceptions = (rule: string): Pick<Figure, "value" | "locations"> => countExceptions(sources, lines, rule);
  const { operations, unused } = listStorageOperations(sources);
  const loaded = listStreamedRunFiles(read("docs/architecture.md"));
  return [
    {
      title: "Per 1,000 lines: functions with a cognitive complexity above 15",
      limit: 0.7,
      ...exceptions("lint/complexity/noExcessiveCognitiveComplexity"),
    },
    { title: "Per 1,000 lines: nested ternaries", limit: 0, ...exceptions("lint/style/noNestedTernary") },
    {
      title: "Per 1,000 lines: functions with more than four parameters",
      limit: 0.2,
      ...exceptions("lint/complexity/useMaxParams"),
    },
    {
      title: "Per 1,000 lines: functions over 60 lines",
      limit: 0.4,
      reason: "What is left are factories of operations that share their options; their inner functions are shorter.",
      ...exceptions("lint/complexity/noExcessiveLinesPerFunction"),
    },
    {
      title: "Lines of code without comments, without the studio's page",
      value: core.reduce((sum, { text }) => sum + countCodeLines(text), 0),
    },
    {
      title: "Files of lib that one streamed run executes",
      limit: 45,
      reason: "Fewer files were tried: they pass 350 lines, import each other, or mix purposes that are read apart.",
      value: loaded.length,
      locations: loaded,
    },
    { title: "`typeof` in the endpoints of agent protocols", ...countMatches(endpoints, /\btypeof [a-z]/g) },
    {
      title: "Files that use undocumented members of LangGraph",
      limit: 1,
      value: new Set(undocumented.locations?.map((location) => location.replace(/:\d+$/, ""))).size,
      locations: undocumented.locations ?? [],
    },
    {
      title: "Lines of our own checks of the code",
      value: scripts.reduce((sum, path) => sum + countCodeLines(read(path)), 0),
    },
    { title: "Operations of Storage", value: operations.length },
    { title: "Operations of Storage that nothing calls", limit: 0, value: unused.length, locations: unused },
    { title: "Lines of README.md", limit: 150, value: read("README.md").trimEnd().split("\n").length },
    {
      title: "Bytes of lib/mod.ts, minified, with its static imports",
      limit: 276_000,
      value: await measureBundle(root, ["lib/mod.ts"]),
    },
    {
      title: "Bytes of lib/mod.ts and createHandler, the same way",
      limit: 331_000,
      value: await measureBundle(root, ["lib/mod.ts", "lib/http/handler.ts"]),
    },
  ];
}
