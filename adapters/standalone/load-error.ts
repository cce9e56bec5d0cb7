/** Why a file of a project cannot be loaded, with the place in its source. */
import { relative } from "node:path";
import process from "node:process";
import { projectFrames, readLines, type SourcePlace } from "./thrown-error.ts";

/** The message of an error, and where the file and line are known, these and the line itself. */
export function loadError(error: unknown): string {
  // Bun gives all errors of a file at once.
  const first = error instanceof AggregateError && error.errors.length > 0 ? error.errors[0] : error;
  const { message = String(first) } = first as { message?: string };
  const found = placeOf(first, message);
  if (!found) return message;
  const { file, line, column } = found;
  const [text = ""] = message.split(` \n ${file}`);
  const code = readLines(file)?.[line - 1];
  const at = `${text.trimEnd()}\n    at ${relative(process.cwd(), file)}:${line}`;
  if (code === undefined) return `${at}:${column}`;
  const margin = " ".repeat(String(line).length);
  // The loader puts code of its own in front of the first line.
  if (column > code.length + 1) return `${at}\n    ${line} | ${code}`;
  return `${at}:${column}\n    ${line} | ${code}\n    ${margin} | ${code.slice(0, column - 1).replace(/\S/g, " ")}^`;
}

function placeOf(error: unknown, message: string): SourcePlace | undefined {
  const { position, stack = "" } = error as { position?: Partial<SourcePlace> | null; stack?: string };
  if (position?.file && position.line && position.column) return position as SourcePlace;
  // jiti's: a message, and below it the place.
  const [, file, line, column] = /\n (\S.*):(\d+):(\d+)$/.exec(message) ?? [];
  if (file) return { file, line: Number(line), column: Number(column) };
  return projectFrames(stack)[0];
}
