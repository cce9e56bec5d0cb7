/** The results of a soak program: figures for the table, and violations, each of which fails it. */

interface Row {
  readonly figure: string;
  readonly value: string;
  readonly goal: string;
  readonly met: boolean;
}

/** The maximum number of printed violations of one figure. */
const SHOWN = 5;

/** Figures and violations of one program. */
export class Report {
  readonly name: string;
  readonly #rows: Row[] = [];
  readonly #violations = new Map<string, readonly string[]>();

  constructor(name: string) {
    this.name = name;
  }

  /** Adds a figure that has no goal. */
  note(figure: string, value: string | number): void {
    this.#rows.push({ figure, value: String(value), goal: "", met: true });
  }

  /** Adds a figure that has to stay at or below `most`. */
  atMost(figure: string, value: number, most: number, unit = ""): void {
    // Not a number: nothing was measured, which must not pass for a good figure.
    const met = value <= most;
    this.#rows.push({ figure, value: formatFigure(value, unit), goal: `<= ${formatFigure(most, unit)}`, met });
  }

  /** Adds a figure that has to reach `least`, which proves that the program has tested enough. */
  atLeast(figure: string, value: number, least: number, unit = ""): void {
    this.#rows.push({
      figure,
      value: formatFigure(value, unit),
      goal: `>= ${formatFigure(least, unit)}`,
      met: value >= least,
    });
  }

  /** Adds a figure that has to be 0: the number of texts, each of which describes a violation. */
  none(figure: string, texts: readonly string[]): void {
    this.atMost(figure, texts.length, 0);
    if (texts.length > 0) this.#violations.set(figure, texts);
  }

  get failed(): boolean {
    return this.#rows.some((row) => !row.met);
  }

  print(): void {
    for (const { figure, value, goal, met } of this.#rows) {
      console.log(`| ${this.name} | ${figure} | ${value} | ${goal} | ${met ? "ok" : "FAILED"} |`);
    }
    for (const [figure, texts] of this.#violations) {
      console.log(`${figure}:`);
      // Each on one line that says FAILED: whoever searches a long log for failures finds the reasons, too.
      for (const text of texts.slice(0, SHOWN)) console.log(`  FAILED: ${text.replace(/\s*\n\s*/g, " | ")}`);
      if (texts.length > SHOWN) console.log(`  and ${texts.length - SHOWN} more`);
    }
  }
}

function formatFigure(value: number, unit: string): string {
  const text = Number.isInteger(value) ? String(value) : value.toFixed(1);
  return unit ? `${text} ${unit}` : text;
}

/** The value below which this share of the list lies; NaN for an empty list. */
export function quantile(list: readonly number[], share: number): number {
  const sorted = list.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? Number.NaN;
}
