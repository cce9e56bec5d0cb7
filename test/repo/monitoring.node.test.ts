/** The alert rules and the dashboard name metrics and labels that /metrics has, and the docs name the metrics. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { parse } from "yaml";
import { formatMetrics } from "../../lib/http/metrics-text.ts";
import { RunHistograms } from "../../lib/traces/histograms.ts";
import { METRICS } from "../lib/http/fake-service.ts";

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

/** Returns metrics with one sample of each histogram. */
function createText(): string {
  const histograms = new RunHistograms();
  const span = { span_id: "1", start_ms: 0, status: "ok", name: "x" } as const;
  histograms.onClaimed("g", 1);
  histograms.onRunEnded("g", "success", 1);
  histograms.onSpanEnded({ ...span, kind: "model", tokens: { in: 1, out: 1 }, first_token_ms: 1 });
  histograms.onSpanEnded({ ...span, kind: "tool" });
  histograms.onCommit(1);
  return formatMetrics({ ...METRICS, open_streams: 1, histograms: histograms.read() });
}

/** The labels of each sample by its name. */
const labelsByName = new Map<string, ReadonlySet<string>>();
for (const line of createText().split("\n")) {
  const [, name, labels = ""] = /^(greenroom_\w+)(?:\{(.*)\})? /.exec(line) ?? [];
  if (name !== undefined) labelsByName.set(name, new Set(labels.match(/\w+(?==")/g) ?? []));
}

/** Fails if an expression names a metric, or groups or selects by a label, that /metrics does not have. */
function checkExpression(expression: string): void {
  const names = expression.match(/greenroom_\w+/g) ?? [];
  assert.ok(names.length > 0, expression);
  for (const name of names) assert.ok(labelsByName.has(name), `${name} in ${expression}`);
  const known = new Set(names.flatMap((name) => [...(labelsByName.get(name) ?? [])]));
  const grouped = [...expression.matchAll(/by \(([^)]*)\)/g)].flatMap(([, list = ""]) => list.split(/,\s*/));
  const selected = [...expression.matchAll(/\{([^}]*)\}/g)].flatMap(
    ([, list = ""]) => list.match(/\w+(?=[!=]=?~?")/g) ?? [],
  );
  for (const label of [...grouped, ...selected]) assert.ok(known.has(label), `${label} in ${expression}`);
  assert.equal(expression.split("(").length, expression.split(")").length, expression);
  if (expression.includes("histogram_quantile"))
    assert.ok(
      names.every((name) => name.endsWith("_bucket")),
      expression,
    );
}

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string };
}

describe("examples/monitoring/alerts.yml", () => {
  const { groups } = parse(read("examples/monitoring/alerts.yml")) as {
    readonly groups: readonly { readonly rules: readonly Rule[] }[];
  };
  const rules = groups.flatMap((group) => group.rules);

  it("has rules with different names, a severity and a summary", () => {
    assert.ok(rules.length > 5);
    assert.equal(new Set(rules.map(({ alert }) => alert)).size, rules.length);
    for (const { labels, annotations } of rules) assert.ok(labels.severity && annotations.summary);
  });

  it("compares metrics that exist", () => {
    for (const { expr } of rules) {
      checkExpression(expr);
      assert.match(expr, /[<>]/);
    }
  });
});

describe("examples/monitoring/dashboard.json", () => {
  interface Panel {
    readonly id: number;
    readonly title: string;
    readonly gridPos: { readonly x: number; readonly y: number };
    readonly targets: readonly { readonly refId: string; readonly expr: string; readonly legendFormat: string }[];
  }
  const { panels } = JSON.parse(read("examples/monitoring/dashboard.json")) as { readonly panels: readonly Panel[] };

  it("has panels with different ids and places, and targets with different letters", () => {
    const count = (values: readonly unknown[]): number => new Set(values).size;
    assert.equal(count(panels.map(({ id }) => id)), panels.length);
    assert.equal(count(panels.map(({ gridPos: { x, y } }) => `${x},${y}`)), panels.length);
    for (const { targets } of panels) assert.equal(count(targets.map(({ refId }) => refId)), targets.length);
  });

  it("shows metrics that exist, with legends of their labels", () => {
    for (const { expr, legendFormat } of panels.flatMap(({ targets }) => targets)) {
      checkExpression(expr);
      const grouped = /by \(([^)]*)\)/.exec(expr)?.[1]?.split(/,\s*/) ?? [];
      for (const [, label = ""] of legendFormat.matchAll(/\{\{(\w+)\}\}/g))
        assert.ok(grouped.includes(label), legendFormat);
    }
  });

  it("shows every histogram", () => {
    const text = JSON.stringify(panels);
    for (const { name } of new RunHistograms().read()) assert.ok(text.includes(`greenroom_${name}_`), name);
  });
});
