/**
 * Prints how the tree is worded, in a table with a row for each folder, beside the limits of scripts/language-limits.json. Exit code 1
 * when a figure is above its limit.
 *
 *   node scripts/check-language.ts [--list [PATH…]]     with each finding, in these files and folders
 */
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { type Finding, type Kind, type Language, measureLanguage } from "./language.ts";
import { readSources } from "./sources.ts";

/** The figures of a folder: names for each 1,000 lines of code, fragments in percent of the doc comments. */
type FolderLimits = Readonly<Record<"bareNames" | "genericNames" | "fragments" | "nounPhrases", number>>;
/** The figures of the whole tree, which are counted. */
type TreeLimits = Readonly<Record<Exclude<Kind, keyof FolderLimits>, number>>;

export interface LanguageLimits {
  /** The figures that the limits of `lib` and `adapters` are lowered to. They are printed and not judged. */
  readonly targets?: Readonly<Partial<Record<Kind, number>>>;
  readonly folders: Readonly<Record<string, FolderLimits>>;
  readonly tree: TreeLimits;
}

export interface LanguageReport {
  /** The table. */
  readonly lines: readonly string[];
  /** A sentence for each figure above its limit, with what is counted below it. */
  readonly failures: readonly string[];
}

const PATTERNS = ["{lib,adapters,scripts,bench,test}/**/*.{ts,tsx,mjs}"];
/** Projects of users, for tests of the loader. */
const EXCLUDED = /^test\/runtime\/projects\/|\.d\.ts$/;

const TITLES: Readonly<Record<Kind, string>> = {
  bareNames: "names per 1,000 lines that are a participle or a pronoun",
  genericNames: "names per 1,000 lines that fit everything",
  fragments: "% of doc comments that begin without a subject and verb",
  nounPhrases: "% of doc comments of functions without a verb",
  functionsOf: "functions with a name that ends in Of",
  superlatives: "constants that begin with MOST or LONGEST instead of MAX",
  privateKeywords: "members with the keyword private instead of #",
  typesTwice: "exported types with a name that their layer has twice",
};

const KINDS = Object.keys(TITLES) as Kind[];
const round = (figure: number): number => Math.round(figure * 10) / 10;

interface Row {
  readonly folder: string;
  readonly lines: number;
  readonly comments: number;
  readonly counts: Readonly<Record<Kind, number>>;
}

/** Sums up the files for which `isIn` returns true. */
function sumUp(folder: string, { findings, lines, comments }: Language, isIn: (path: string) => boolean): Row {
  const sum = (counts: ReadonlyMap<string, number>): number =>
    [...counts].reduce((total, [path, count]) => total + (isIn(path) ? count : 0), 0);
  const count = (kind: Kind): number =>
    findings.filter((finding) => finding.kind === kind && isIn(finding.path)).length;
  const counts = Object.fromEntries(KINDS.map((kind) => [kind, count(kind)]));
  return { folder, lines: sum(lines), comments: sum(comments), counts: counts as Record<Kind, number> };
}

function toFigure({ lines, comments, counts }: Row, kind: Kind): number {
  if (kind === "fragments" || kind === "nounPhrases") return round((counts[kind] / Math.max(comments, 1)) * 100);
  if (kind === "bareNames" || kind === "genericNames") return round((counts[kind] / Math.max(lines, 1)) * 1_000);
  return counts[kind];
}

const formatRow = (cells: readonly (string | number)[]): string => `| ${cells.join(" | ")} |`;

/** Compares a measured tree with its limits. With `list`, the table also has a row for each subfolder. */
export function judgeLanguage(language: Language, limits: LanguageLimits): LanguageReport {
  const kinds = KINDS;
  const lines = [
    formatRow([
      "folder",
      "lines",
      "bare / 1,000",
      "generic / 1,000",
      "fragments %",
      "without verb %",
      "…Of",
      "MOST_",
      "private",
      "twice",
    ]),
    formatRow(Array(kinds.length + 2).fill("---")),
  ];
  const failures: string[] = [];
  const compare = (row: Row, kind: Kind, limit: number | undefined): string => {
    const figure = toFigure(row, kind);
    if (limit === undefined) return String(figure);
    if (figure <= limit) return `${figure} (limit ${limit})`;
    const findings = language.findings.filter(
      (finding) => finding.kind === kind && isInFolder(finding.path, row.folder),
    );
    failures.push(`${row.folder}: ${figure} ${TITLES[kind]}, limit ${limit}`, ...findings.map(formatFinding));
    return `${figure} (FAILED, limit ${limit})`;
  };
  const addRow = (row: Row, rowLimits: Partial<Record<Kind, number>>): void => {
    lines.push(formatRow([row.folder, row.lines, ...kinds.map((kind) => compare(row, kind, rowLimits[kind]))]));
  };
  const paths = [...language.lines.keys()];
  for (const [folder, folderLimits] of Object.entries(limits.folders)) {
    const parts = new Set(paths.flatMap((path) => (path.startsWith(`${folder}/`) ? toSubfolder(path) : [])));
    for (const part of parts)
      addRow(
        sumUp(part, language, (path) => isInFolder(path, part)),
        {},
      );
    addRow(
      sumUp(folder, language, (path) => isInFolder(path, folder)),
      folderLimits,
    );
  }
  addRow(
    sumUp(TREE, language, () => true),
    limits.tree,
  );
  return { lines, failures };
}

const TREE = "all";
const isInFolder = (path: string, folder: string): boolean => folder === TREE || path.startsWith(`${folder}/`);
const toSubfolder = (path: string): string[] => path.match(/^[^/]+\/[^/]+(?=\/)/)?.slice(0, 1) ?? [];
const formatFinding = ({ path, line, kind, text }: Finding): string => `    ${path}:${line} ${kind} ${text}`;

if (import.meta.main) {
  const { values, positionals } = parseArgs({ allowPositionals: true, options: { list: { type: "boolean" } } });
  const root = resolve(".");
  const language = measureLanguage(readSources(root, PATTERNS).filter(({ path }) => !EXCLUDED.test(path)));
  const limits = JSON.parse(readFileSync(join(root, "scripts/language-limits.json"), "utf8")) as LanguageLimits;
  const { lines, failures } = judgeLanguage(language, limits);
  console.log(lines.join("\n"));
  for (const [kind, target] of Object.entries(limits.targets ?? {}))
    console.log(`Target: ${target} ${TITLES[kind as Kind]}`);
  const isListed = ({ path }: Finding): boolean =>
    positionals.length === 0 || positionals.some((start) => path.startsWith(start));
  for (const line of values.list ? language.findings.filter(isListed).map(formatFinding) : failures) console.log(line);
  process.exitCode = failures.length > 0 ? 1 : 0;
}
