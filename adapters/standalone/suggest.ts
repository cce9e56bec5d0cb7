/** What somebody may have meant by a word that is not known. */

/** `; did you mean --port?` where one of the known words is near, else `; see --help`. */
export function didYouMean(word: string, known: Iterable<string>): string {
  const most = word.length < 4 ? 1 : 2;
  let [nearest, least] = ["", most + 1];
  for (const candidate of known) {
    const steps = distance(word, candidate);
    if (steps < least) [nearest, least] = [candidate, steps];
  }
  return nearest === "" ? "; see --help" : `; did you mean ${nearest}?`;
}

/** How many letters differ, are missing, are too many, or have changed places with the next. */
function distance(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, j) => j)];
  const at = (i: number, j: number): number => rows[i]?.[j] ?? Number.POSITIVE_INFINITY;
  for (let i = 1; i <= a.length; i++) {
    rows[i] = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const steps = [at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + (same ? 0 : 1)];
      (rows[i] as number[])[j] = Math.min(...steps, ...(swapped ? [at(i - 2, j - 2) + 1] : []));
    }
  }
  return at(a.length, b.length);
}
