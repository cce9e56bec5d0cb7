/** Rows of a CSV file, as RFC 4180 has them. */

/** What a spreadsheet would take for a formula, or would drop. */
const ACTIVE = /^[=+\-@\t\r\n]/;

/** Which cells are quoted: those that RFC 4180 asks for, or all that are text. */
export type CsvQuotes = "needed" | "text";

/** One row with its line end. Null is an empty cell; text that begins like a formula gets a tab in front, numbers do not. */
export function csvRow(cells: readonly (string | number | null)[], quotes: CsvQuotes = "needed"): string {
  return `${cells.map((cell) => csvCell(cell, quotes)).join(",")}\r\n`;
}

function csvCell(value: string | number | null, quotes: CsvQuotes): string {
  if (value === null) return "";
  if (typeof value === "number") return String(value);
  const cell = ACTIVE.test(value) ? `\t${value}` : value;
  return quotes === "text" || /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
}
