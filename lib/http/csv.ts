/** Rows of a CSV file (RFC 4180). */

/** The start of text that spreadsheets run as a formula, or drop. */
const ACTIVE = /^[=+\-@\t\r\n]/;

/** Which cells are quoted: those for which RFC 4180 requires it, or all text. */
export type CsvQuotes = "needed" | "text";

/** One row with its line end. Null is an empty cell. Text that starts like a formula gets a tab in front. */
export function csvRow(cells: readonly (string | number | null)[], quotes: CsvQuotes = "needed"): string {
  return `${cells.map((cell) => csvCell(cell, quotes)).join(",")}\r\n`;
}

function csvCell(value: string | number | null, quotes: CsvQuotes): string {
  if (value === null) return "";
  if (typeof value === "number") return String(value);
  const cell = ACTIVE.test(value) ? `\t${value}` : value;
  return quotes === "text" || /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
}
