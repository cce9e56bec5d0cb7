/** Reads the blocks of code in a page of the docs: programs, and commands and files with the output that the page shows. */

/** A block of commands, or of a file's code. */
export interface Block {
  readonly line: number;
  readonly info: string;
  readonly code: string;
  /** The output that the page shows. */
  readonly output: { readonly format: "json" | "text"; readonly text: string } | undefined;
  /** The file that the block's code is written to. */
  readonly file: string | undefined;
}

/** A block of TypeScript or JavaScript. */
export interface ProgramBlock {
  /** The line of the page before the code. */
  readonly line: number;
  /** The text before the block's first line, if it is indented. */
  readonly indent: string;
  /** The first line: the language, and words behind it. */
  readonly info: string;
  readonly code: string;
}

const PROGRAM_BLOCK = /^([ \t]*)```((?:tsx?|jsx?|mts|typescript)\b[^\n]*)\n(.*?)^\1```/gms;

/** Returns the blocks of TypeScript and JavaScript of a page in order. */
export const readPrograms = (text: string): ProgramBlock[] =>
  [...text.matchAll(PROGRAM_BLOCK)].map(({ index, 1: indent = "", 2: info = "", 3: code = "" }) => ({
    line: text.slice(0, index).split("\n").length,
    indent,
    info,
    code,
  }));

/** The address that the pages use. */
export const DEMO_URL = "http://127.0.0.1:2024";

/** Returns the blocks of a page in order. */
export function readBlocks(text: string): Block[] {
  const matches = text.matchAll(/^```((?:sh|ts)\b[^\n]*)\n(.*?)^```(?:\s*```(json|text)\n(.*?)^```)?/gms);
  return [...matches].flatMap(({ index, 1: info = "", 2: code = "", 3: format, 4: output = "" }) => {
    const file = info.startsWith("ts") ? /^\/\/ ([\w./-]+\.m?ts)\n/.exec(code)?.[1] : undefined;
    if (info.startsWith("ts") && file === undefined) return [];
    const line = text.slice(0, index).split("\n").length;
    return [
      { line, info, code, output: format ? { format: format as "json" | "text", text: output } : undefined, file },
    ];
  });
}

/** Returns the lines of a block without comments and empty lines. */
export function splitCommands(code: string): string[] {
  return code.split("\n").filter((line) => line.trim() !== "" && !line.startsWith("#"));
}

/** Returns the sorted keys of a JSON object as JSON; any other JSON unchanged. */
const formatKeys = (json: string): string => {
  const value = JSON.parse(json) as unknown;
  return JSON.stringify(typeof value === "object" && value !== null ? Object.keys(value).sort() : value);
};

/** Ids, times and short forms of keys, which differ at each run. */
const VARYING_TEXT = /[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\dT[\d:.]+Z|gr_[a-z]+_\.\.\.\w{4}/g;

/** Returns a pattern that matches the printed form of a line of the page. */
function toPattern(line: string): RegExp {
  const plain = line.replaceAll(DEMO_URL, "http://HOST").replace(VARYING_TEXT, "ID");
  return new RegExp(
    `^${plain
      .split("…")
      .map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"))
      .join(".*")}$`,
  );
}

/** Returns true if the printed text is what the page shows. */
export function isExpectedOutput(printed: string, { format, text }: NonNullable<Block["output"]>): boolean {
  if (format === "json") {
    const answers = printed.split("\n").filter((line) => /^[[{]/.test(line));
    return answers.some((line) => formatKeys(line) === formatKeys(text));
  }
  const lines = printed
    .replace(/http:\/\/127\.0\.0\.1:\d+/g, "http://HOST")
    .replace(VARYING_TEXT, "ID")
    .split("\n");
  const output = text.trim().split("\n");
  return (
    output.length === lines.length && output.every((line, i) => toPattern(line).test((lines[i] as string).trimEnd()))
  );
}
