#!/usr/bin/env node
// Writes the figures of `npm run bench -- --json FILE` into docs/operations/performance.md, between the marks of each table.
//   node bench/report.mjs BUN.json NODE.json
// Several files of a runtime may each have some parts.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { median } from "./load.mjs";
import { show } from "./table.mjs";

const page = join(import.meta.dirname, "../docs/operations/performance.md");
const results = process.argv.slice(2).map((file) => JSON.parse(readFileSync(file, "utf8")));
if (results.length === 0) throw new Error("node bench/report.mjs FILE.json [FILE.json]");
const listResults = (runtime) => results.filter((result) => result.runtime === runtime);
const line = (cells) => `| ${cells.join(" | ")} |`;
const table = (head, rows) => [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");

function figures(runtime) {
  const rows = listResults(runtime).flatMap((result) => result.rows);
  const cells = rows.map(({ row, what, unit, peer, hand, plain, ours, ratio, goal }) => {
    const [by, mark] = hand === undefined && plain !== undefined ? [plain, " \\*"] : [hand, ""];
    return [row, `${what}${unit && `, ${unit}`}`, show(peer), `${show(by)}${mark}`, show(ours), show(ratio), goal];
  });
  return table(["", "", "langgraph-api", "by hand", "Greenroom", "ratio", "goal"], cells);
}

function conditions() {
  const lines = results.map(({ runtime, quick, machine, load, rows, figures }) => {
    const [fsync_ms, commit_ms] = ["fsync_ms", "commit_ms"].map((name) => figures[name]?.machine);
    const which =
      rows.length > 0 ? `rows ${[...new Set(rows.map(({ row }) => row).filter(Boolean))].join(", ")}` : "costs";
    const disks = fsync_ms
      ? `, fsync ${fsync_ms.map(show).join(" and ")} ms, commit ${commit_ms.map(show).join(" and ")} ms`
      : "";
    return `- ${runtime}${quick ? ", `--quick`" : ""}, ${which}: ${machine.cores} cores of ${machine.model}, load average ${load.map((value) => value.toFixed(1)).join(" and ")}${disks}.`;
  });
  return `Before and after each measurement:\n\n${lines.join("\n")}`;
}

function layers() {
  const costs = ["bun", "node"].map((runtime) => listResults(runtime).find((result) => result.costs)?.costs.layers);
  const us = (layer, figure) => (layer ? String(Math.round(median(layer[figure]))) : "-");
  const names = Object.keys(costs.find(Boolean) ?? {});
  const rows = names.map((name) => [
    name,
    ...costs.flatMap((layer) => [us(layer?.[name], "cpu_us"), us(layer?.[name], "lone_us")]),
  ]);
  return table(["", "Bun: 64 at once, CPU", "one, wall", "Node: 64 at once, CPU", "one, wall"], rows);
}

function promises(runtime) {
  const costs = listResults(runtime).find((result) => result.costs)?.costs;
  if (!costs) return "";
  const run = Object.entries(costs.promises.runs).find(([name]) => name.includes("on a thread"))[1];
  const rows = Object.entries(run.promises)
    .toSorted(([, a], [, b]) => b.us - a.us)
    .map(([name, { statements, bytes, us }]) => [name, statements.toFixed(1), Math.round(bytes), Math.round(us)]);
  const { renewal, checks } = costs.promises;
  rows.push([
    "one renewal of a lease",
    renewal.statements.toFixed(1),
    Math.round(renewal.bytes),
    Math.round(renewal.us),
  ]);
  const { "no check": without, ...checked } = checks;
  for (const [name, us] of Object.entries(checked))
    rows.push([`${name} of a request, CPU`, "", "", Math.max(0, Math.round(us - without))]);
  return table(["", "calls", "bytes", "µs"], rows);
}

let text = readFileSync(page, "utf8");
const sections = {
  conditions: conditions(),
  bun: figures("bun"),
  node: figures("node"),
  layers: layers(),
  promises: promises("bun"),
};
for (const [name, content] of Object.entries(sections)) {
  const [from, to] = [`<!-- ${name} -->`, `<!-- /${name} -->`];
  const [before, textAfter] = text.split(from);
  if (textAfter === undefined) throw new Error(`${page} has no ${from}`);
  text = `${before}${from}\n\n${content}\n\n${to}${textAfter.split(to)[1]}`;
}
writeFileSync(page, text);
