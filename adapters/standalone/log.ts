/** Log records for people. */
import type { LogRecord } from "../../lib/mod.ts";

/** One record as text: time, level, message, fields, and below them the stack of an error. Control characters are written as escapes. */
export function textLine({ level, message, error, ...fields }: LogRecord, now: number): string {
  const time = new Date(now).toISOString().slice(11, 23);
  const shown = Object.entries(fields).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}=${typeof value === "string" ? plain(value) : JSON.stringify(value)}`],
  );
  const head = [time, level, plain(message), ...shown].join(" ");
  if (error === undefined) return head;
  const cause = error instanceof Error ? (error.stack ?? String(error)) : JSON.stringify(error);
  return `${head}\n${cause
    .split("\n")
    .map((line) => `  ${plain(line)}`)
    .join("\n")}`;
}

// A terminal would obey them.
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are meant.
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/g;

const plain = (text: string): string =>
  text.replace(CONTROL, (char) => `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`);
