/** A parser of the text format of Prometheus, version 0.0.4, that refuses what the format forbids. */
import assert from "node:assert/strict";

export interface PrometheusSample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface PrometheusFamily {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly samples: readonly PrometheusSample[];
}

const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const NUMBER = /^(?:[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?|[-+]?Inf|NaN)$/i;
const toNumber = (text: string): number => {
  assert.match(text, NUMBER);
  return Number(text.replace(/^\+?Inf$/i, "Infinity").replace(/^-Inf$/i, "-Infinity"));
};

/** Reads the labels in braces. Returns them with the position behind the brace. */
function readLabels(line: string, start: number): readonly [labels: Record<string, string>, next: number] {
  const labels: Record<string, string> = {};
  let at = start + 1;
  while (line[at] !== "}") {
    const [matched, name = "", text = ""] = /^([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)",?/.exec(line.slice(at)) ?? [];
    assert.ok(matched !== undefined, `labels of ${line}`);
    assert.ok(!(name in labels), `${name} twice in ${line}`);
    labels[name] = text.replace(/\\(.)/g, (_, character: string) => (character === "n" ? "\n" : character));
    at += matched.length;
  }
  return [labels, at + 1];
}

function readSample(line: string): PrometheusSample {
  const [name = ""] = /^[^{\s]*/.exec(line) ?? [];
  assert.match(name, NAME, line);
  const [labels, at] = line[name.length] === "{" ? readLabels(line, name.length) : [{}, name.length];
  const [value = "", ...rest] = line.slice(at).trim().split(/\s+/);
  assert.deepEqual(rest, [], `no time behind ${line}`);
  return { name, labels, value: toNumber(value) };
}

/** Returns a text that is equal for samples of the same labels, `le` excepted. */
const toKey = ({ le: _, ...labels }: Readonly<Record<string, string>>): string =>
  JSON.stringify(Object.entries(labels).sort());

/** Fails unless buckets rise to `+Inf`, which equals the count, and each set of labels has a sum. */
function checkHistogram({ name, samples }: PrometheusFamily): void {
  const groups = new Map<string, PrometheusSample[]>();
  for (const sample of samples) groups.set(toKey(sample.labels), [...(groups.get(toKey(sample.labels)) ?? []), sample]);
  for (const [labels, group] of groups) {
    const find = (suffix: string) => group.filter((sample) => sample.name === `${name}_${suffix}`);
    const [buckets, sums, counts] = [find("bucket"), find("sum"), find("count")];
    assert.deepEqual([sums.length, counts.length], [1, 1], `${name} ${labels}`);
    assert.equal(buckets.length + 2, group.length, `${name} ${labels}`);
    const bounds = buckets.map((bucket) => toNumber(bucket.labels["le"] ?? ""));
    assert.equal(bounds.at(-1), Number.POSITIVE_INFINITY, `${name} ${labels}`);
    const counted = buckets.map(({ value }) => value);
    assert.deepEqual(
      bounds,
      [...new Set(bounds)].sort((a, b) => a - b),
      `${name} ${labels}`,
    );
    assert.deepEqual(
      counted,
      counted.toSorted((a, b) => a - b),
      `${name} ${labels}`,
    );
    assert.ok(
      counted.every((count) => count >= 0),
      `${name} ${labels}`,
    );
    assert.equal(buckets.at(-1)?.value, counts[0]?.value, `${name} ${labels}`);
  }
}

/** Parses a text. Fails for anything that a scraper would refuse, or that promtool would report. */
export function parsePrometheusText(text: string): ReadonlyMap<string, PrometheusFamily> {
  assert.ok(text.endsWith("\n") && !text.includes("\r"), "the last line ends");
  const families = new Map<string, { help: string; type: string; samples: PrometheusSample[]; name: string }>();
  let current = "";
  for (const line of text.slice(0, -1).split("\n")) {
    const [, keyword, name = "", rest = ""] = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line) ?? [];
    if (keyword === "HELP") {
      assert.match(name, NAME);
      assert.ok(!families.has(name), `HELP of ${name} twice`);
      families.set(name, { name, help: rest, type: "", samples: [] });
      current = name;
      continue;
    }
    const family = families.get(current);
    assert.ok(family, `a family before ${line}`);
    if (keyword === "TYPE") {
      assert.equal(name, current, "TYPE follows HELP");
      assert.equal(family.type, "", `TYPE of ${name} twice`);
      assert.ok(["counter", "gauge", "histogram", "summary", "untyped"].includes(rest), line);
      family.type = rest;
      continue;
    }
    assert.ok(family.type !== "", `TYPE before ${line}`);
    const sample = readSample(line);
    const suffixes = family.type === "histogram" ? ["_bucket", "_sum", "_count"] : [""];
    assert.ok(
      suffixes.some((suffix) => sample.name === current + suffix),
      `${sample.name} stands below ${current}`,
    );
    if (family.type === "counter") assert.ok(sample.value >= 0 && current.endsWith("_total"), line);
    family.samples.push(sample);
  }
  const all = [...families.values()].flatMap(({ samples }) => samples);
  const keys = all.map(({ name, labels }) => `${name}${JSON.stringify(Object.entries(labels).sort())}`);
  assert.equal(new Set(keys).size, keys.length, "each sample stands once");
  for (const family of families.values()) if (family.type === "histogram") checkHistogram(family);
  return families;
}
