/** Waits for a fact that no event announces. Fails with the text of its condition instead of waiting without end. */
export async function until(
  fact: () => boolean | Promise<boolean>,
  what: string = String(fact),
  ms = 60_000,
): Promise<void> {
  const end = performance.now() + ms;
  while (!(await fact())) {
    if (performance.now() > end) throw new Error(`Not within ${ms} ms: ${what}`);
    await new Promise<void>((resolve) => setTimeout(resolve, 1));
  }
}
