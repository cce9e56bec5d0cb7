/** Reads the output of a test runner: the numbers of passed and failed tests, and the slowest groups. */
export interface Outcome {
  readonly passed: number;
  readonly failed: number;
}

/** Counts a runner that failed without a failed test, or ran none, as one failure, because it crashed. */
const toOutcome = (passed: number, failed: number, exit: number | null): Outcome => ({
  passed,
  failed: failed === 0 && (exit !== 0 || passed === 0) ? 1 : failed,
});

/** Counts the tests of a JUnit report. A group that Deno lists beside its tests (`group`, `group > test`) counts only if it failed by itself. */
export function countReport(xml: string, exit: number | null): Outcome {
  const cases = [...xml.matchAll(/<testcase((?:\s+[\w:-]+="[^"]*")*)\s*(?:\/>|>([\s\S]*?)<\/testcase>)/g)].map(
    ([, attributes = "", body = ""]) => ({
      name: /\sname="([^"]*)"/.exec(attributes)?.[1] ?? "",
      failed: /<(?:failure|error|skipped)\b/.test(body),
    }),
  );
  const tests = cases.filter(({ name, failed }) => {
    const inside = cases.filter((candidate) => candidate.name.startsWith(`${name} &gt; `));
    return inside.length === 0 || (failed && inside.every((member) => !member.failed));
  });
  const failed = tests.filter((test) => test.failed).length;
  return toOutcome(tests.length - failed, failed, exit);
}

/** Reads the counts of a command that ends with `N passed, N failed`. */
export function countLine(output: string, exit: number | null): Outcome {
  const [, passed = "0", failed = "0"] = [...output.matchAll(/^(\d+) passed, (\d+) failed$/gm)].at(-1) ?? [];
  return toOutcome(Number(passed), Number(failed), exit);
}

/** Returns the names and seconds of the slowest groups of a JUnit report, of those that stand first in a file. */
export function formatSlowest(xml: string): string {
  return [...xml.matchAll(/^(?:\t| {2})<testsuite name="([^"]*)"[^>]*\btime="([\d.]+)"/gm)]
    .map(([, name = "", seconds]) => ({ name, seconds: Number(seconds) }))
    .sort((a, b) => b.seconds - a.seconds)
    .slice(0, 12)
    .map(({ name, seconds }) => `${name} ${seconds.toFixed(0)} s`)
    .join(", ");
}
