/** Formats the error of a project file that cannot be loaded, with its position in the source. */
import { relative } from "node:path";
import process from "node:process";
import { findProjectFrames, readLines, type SourceLocation } from "./thrown-error.ts";

/**
 * Returns the message of an error, the first one of an AggregateError. Adds the position and the line of code below it
 * if the error names a place in a file of the project.
 */
export function formatLoadError(error: unknown): string {
  // Bun gives all errors of a file at once.
  const firstError = error instanceof AggregateError && error.errors.length > 0 ? error.errors[0] : error;
  const { message = String(firstError) } = firstError as { message?: string };
  const location = findSourceLocation(firstError, message);
  if (!location) return message;
  const { file, line, column } = location;
  const [text = ""] = message.split(` \n ${file}`);
  const code = readLines(file)?.[line - 1];
  const heading = `${text.trimEnd()}\n    at ${relative(process.cwd(), file)}:${line}`;
  if (code === undefined) return `${heading}:${column}`;
  const margin = " ".repeat(String(line).length);
  // The loader puts code of its own in front of the first line.
  if (column > code.length + 1) return `${heading}\n    ${line} | ${code}`;
  return `${heading}:${column}\n    ${line} | ${code}\n    ${margin} | ${code.slice(0, column - 1).replace(/\S/g, " ")}^`;
}

/**
 * Returns where in the project an error happened: its position in Bun, the place in the message of jiti, or the
 * innermost frame of its stack; undefined if none has it.
 */
function findSourceLocation(error: unknown, message: string): SourceLocation | undefined {
  const { position, stack = "" } = error as { position?: Partial<SourceLocation> | null; stack?: string };
  if (position?.file && position.line && position.column) return position as SourceLocation;
  // jiti's: a message, and below it the place.
  const [, file, line, column] = /\n (\S.*):(\d+):(\d+)$/.exec(message) ?? [];
  if (file) return { file, line: Number(line), column: Number(column) };
  return findProjectFrames(stack)[0];
}
