/** Reads the rows of a run's trace from the studio. */
import type { Locator, Page } from "playwright-core";

export interface SpanRow {
  readonly level: number;
  /** The kind and the name. */
  readonly label: string;
  /** Empty for a span that ended well. */
  readonly state: string;
  readonly notes: string;
  readonly tokens: string;
  readonly cost: string;
  readonly time: string;
  /** The left edge and the width of the bar, as parts of the track. */
  readonly start: number;
  readonly width: number;
}

export const spanRow = (page: Page, label: string | RegExp): Locator =>
  page.locator(".span-row").filter({ has: page.locator(".label", { hasText: label }) });

/** Reads all rows, in their order. Those of commits are left out: which are slow depends on the machine. */
export async function readSpanRows(page: Page): Promise<readonly SpanRow[]> {
  const rows = await page.locator(".span-row").evaluateAll((elements) =>
    elements.map((row) => {
      const read = (selector: string): string => row.querySelector(selector)?.textContent?.trim() ?? "";
      const track = (row.querySelector(".track") as Element).getBoundingClientRect();
      const bar = (row.querySelector(".bar") as Element).getBoundingClientRect();
      return {
        level: Number(row.getAttribute("aria-level")),
        label: read(".label"),
        state: read(".state").replace(/^\S /, ""),
        notes: read(".notes"),
        tokens: read(".tokens"),
        cost: read(".cost"),
        time: read(".time"),
        start: (bar.left - track.left) / track.width,
        width: bar.width / track.width,
      };
    }),
  );
  return rows.filter(({ label }) => label !== "commit");
}

/** Returns rows as a text of one line each: indented, with what is not well. */
export const formatSpanRows = (rows: readonly SpanRow[]): readonly string[] =>
  rows.map(({ level, label, state }) => `${"  ".repeat(level - 1)}${label}${state ? `, ${state}` : ""}`);
