/** The blocks of commands and files in a page of the docs, and what a page shows as their output. */

/** A block of commands, or of a file's code. */
export interface Block {
  readonly line: number;
  readonly info: string;
  readonly code: string;
  /** What the page shows as the output. */
  readonly shown: { readonly format: "json" | "text"; readonly text: string } | undefined;
  /** The file that the block's code is written to. */
  readonly file: string | undefined;
}

/** The address that the pages use. */
export const DEMO = "http://127.0.0.1:2024";

/** The blocks of a page, in their order. */
export function blocksOf(text: string): Block[] {
  const found = text.matchAll(/^```((?:sh|ts)\b[^\n]*)\n(.*?)^```(?:\s*```(json|text)\n(.*?)^```)?/gms);
  return [...found].flatMap(({ index, 1: info = "", 2: code = "", 3: format, 4: shown = "" }) => {
    const file = info.startsWith("ts") ? /^\/\/ ([\w./-]+\.m?ts)\n/.exec(code)?.[1] : undefined;
    if (info.startsWith("ts") && file === undefined) return [];
    const line = text.slice(0, index).split("\n").length;
    return [{ line, info, code, shown: format ? { format: format as "json" | "text", text: shown } : undefined, file }];
  });
}

/** Lines that belong together: a command may go on after a backslash or inside quotes. Comment lines are left out. */
export function commandsOf(code: string): string[] {
  return code.split("\n").filter((line) => line.trim() !== "" && !line.startsWith("#"));
}

const keysOf = (json: string): string => {
  const value = JSON.parse(json) as unknown;
  return JSON.stringify(typeof value === "object" && value !== null ? Object.keys(value).sort() : value);
};

/** Ids, times and short forms of keys, which differ at each run. */
const VARIES = /[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\dT[\d:.]+Z|gr_[a-z]+_\.\.\.\w{4}/g;

/** A line as the page shows it, as a pattern of what is printed. */
function patternOf(line: string): RegExp {
  const plain = line.replaceAll(DEMO, "http://HOST").replace(VARIES, "ID");
  return new RegExp(
    `^${plain
      .split("…")
      .map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"))
      .join(".*")}$`,
  );
}

/** Whether what was printed is what the page shows. */
export function prints(printed: string, { format, text }: NonNullable<Block["shown"]>): boolean {
  if (format === "json") {
    const answers = printed.split("\n").filter((line) => /^[[{]/.test(line));
    return answers.some((line) => keysOf(line) === keysOf(text));
  }
  const lines = printed
    .replace(/http:\/\/127\.0\.0\.1:\d+/g, "http://HOST")
    .replace(VARIES, "ID")
    .split("\n");
  const shown = text.trim().split("\n");
  return (
    shown.length === lines.length && shown.every((line, i) => patternOf(line).test((lines[i] as string).trimEnd()))
  );
}
