/** A thrown error for its developer: the code that threw, and the frames of the project's own files. */
import { readFileSync } from "node:fs";
import { relative } from "node:path";
import process from "node:process";
import { isProjectFile } from "./loader.ts";

export interface SourceLocation {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** A frame of a stack, with the name of its function. */
interface StackFrame extends SourceLocation {
  readonly name: string | undefined;
}

const FRAME = /^ +at (?:(.*) \()?((?:file:\/\/)?(?:\/|[A-Za-z]:[\\/]).*?):(\d+):(\d+)\)?$/gm;
const LINES_AROUND = 1;
/** Deeper causes are left out. */
const MAX_CAUSES = 5;

/** Returns the frames of a stack that are in files of the project, innermost first; empty if there are none. */
export function findProjectFrames(stack: string): StackFrame[] {
  return [...stack.matchAll(FRAME)].flatMap(([, name, path = "", line, column]) => {
    const file = path.startsWith("file:") ? process.getBuiltinModule("node:url").fileURLToPath(path) : path;
    return isProjectFile(file) ? [{ name, file, line: Number(line), column: Number(column) }] : [];
  });
}

/** Returns the lines of a source file without their ends; undefined if it cannot be read. */
export function readLines(file: string): string[] | undefined {
  try {
    return readFileSync(file, "utf8").split(/\r?\n/);
  } catch {
    return undefined;
  }
}

/**
 * Returns the name and message of an error, its frames in the project, with code at the innermost, and its causes up to
 * a limit. An error without such a frame has its whole stack, as a cause only its name and message.
 */
export function formatThrownError(error: Error, depth = 0): string {
  const { stack = "", cause } = error;
  const frames = findProjectFrames(stack);
  const causeText =
    cause instanceof Error && depth < MAX_CAUSES ? `\nCaused by ${formatThrownError(cause, depth + 1)}` : "";
  if (frames.length === 0)
    return `${depth > 0 ? `${error.name}: ${error.message}` : stack || String(error)}${causeText}`;
  const [first] = frames as [StackFrame];
  const code = formatCodeFrame(first);
  const lines = frames.map(({ name, file, line }) => {
    const location = `${relative(process.cwd(), file)}:${line}`;
    return `    at ${name ? `${name} (${location})` : location}`;
  });
  return [`${error.name}: ${error.message}`, lines[0], ...code, ...lines.slice(1)].join("\n") + causeText;
}

/**
 * Returns the line and those around it, with numbers and a mark; empty if the file has no such line. Columns are left
 * out: those of a transformed file are not the file's.
 */
function formatCodeFrame({ file, line }: SourceLocation): string[] {
  const lines = readLines(file);
  if (lines?.[line - 1] === undefined) return [];
  const from = Math.max(1, line - LINES_AROUND);
  const to = Math.min(lines.length, line + LINES_AROUND);
  const width = String(to).length;
  return lines.slice(from - 1, to).map((text, index) => {
    const number = from + index;
    return `    ${number === line ? ">" : " "} ${String(number).padStart(width)} | ${text}`;
  });
}
