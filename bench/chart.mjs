#!/usr/bin/env node
// Draws the figures of `npm run bench -- --json FILE` as SVG, readable in light and dark. Several files: one per runtime.
//   node bench/chart.mjs BUN.json NODE.json > docs/images/performance.svg
import { readFileSync } from "node:fs";
import process from "node:process";

const PANELS = [
  ["H1", "Runs per second, 64 clients", "more is better"],
  ["H2", "CPU of a run, ms", "less is better"],
  ["H3", "One run at a time, p50 in ms", "less is better"],
  ["H4", "Events per second, 100 streams", "more is better"],
  ["H5", "CPU of a stream of 200 tokens, ms", "less is better"],
  ["H6", "First token of 100 streams, p50 in ms", "less is better"],
];
const WIDTH = 380;
const BAR = 18;
const LABEL = 132;
const VALUE = 56;
const HEAD = 44;
const COLUMNS = 2;

const files = process.argv.slice(2);
if (files.length === 0) {
  console.error("node bench/chart.mjs FILE.json [FILE.json]");
  process.exit(2);
}
const results = files.map((file) => JSON.parse(readFileSync(file, "utf8")));
const formatRuntime = (name) => name[0].toUpperCase() + name.slice(1);
const show = (value) =>
  value >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(value >= 10 ? 3 : 2)));

/** Returns the bars of one panel: a measured system in each file, the peer once. */
function listBars(row) {
  const bars = [];
  for (const { runtime, rows } of results) {
    const figures = rows.find((candidate) => candidate.row === row);
    if (!figures) continue;
    bars.push(["ours", `Greenroom, ${formatRuntime(runtime)}`, figures.ours]);
    bars.push(["hand", `by hand, ${formatRuntime(runtime)}`, figures.hand]);
    if (!bars.some(([kind]) => kind === "peer")) bars.push(["peer", "langgraph-api, Node", figures.peer]);
  }
  const order = ["ours", "hand", "peer"];
  return bars.filter(([, , value]) => value !== undefined).toSorted(([a], [b]) => order.indexOf(a) - order.indexOf(b));
}

const panels = PANELS.map((panel) => [panel, listBars(panel[0])]).filter(([, bars]) => bars.length > 0);
const most = Math.max(...panels.map(([, bars]) => bars.length));
const height = HEAD + most * (BAR + 4) + 22;
const lines = panels.flatMap(([[, title, sense], bars], index) => {
  const x = (index % COLUMNS) * WIDTH + 16;
  const y = Math.floor(index / COLUMNS) * height + 24;
  const room = WIDTH - 32 - LABEL - VALUE;
  const full = Math.max(...bars.map(([, , value]) => value));
  return [
    `<text class="title" x="${x}" y="${y}">${title}</text>`,
    `<text class="sense" x="${x}" y="${y + 15}">${sense}</text>`,
    ...bars.flatMap(([kind, name, value], i) => {
      const top = y + HEAD - 18 + i * (BAR + 4);
      const length = Math.max(1, (value / full) * room).toFixed(1);
      return [
        `<text x="${x + LABEL - 6}" y="${top + 13}" text-anchor="end">${name}</text>`,
        `<rect class="${kind}" x="${x + LABEL}" y="${top}" width="${length}" height="${BAR}" rx="2"/>`,
        `<text x="${(x + LABEL + Number(length) + 5).toFixed(1)}" y="${top + 13}">${show(value)}</text>`,
      ];
    }),
  ];
});
const total = { width: WIDTH * COLUMNS, height: Math.ceil(panels.length / COLUMNS) * height + 8 };
console.log(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${total.width} ${total.height}" width="${total.width}" height="${total.height}" role="img">
<title>Greenroom beside a server written by hand and @langchain/langgraph-api</title>
<style>
text { font: 12px system-ui, sans-serif; fill: #1f2328; }
.title { font-weight: 600; font-size: 13px; }
.sense { fill: #59636e; font-size: 11px; }
.ours { fill: #1a7f4b; }
.hand { fill: #8c959f; }
.peer { fill: #bc6c25; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .sense { fill: #9198a1; }
  .ours { fill: #3fb97a; }
  .hand { fill: #6e7781; }
  .peer { fill: #e0a25f; }
}
</style>
${lines.join("\n")}
</svg>`);
