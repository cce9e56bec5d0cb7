/** Each figure of `npm run check`'s table can exceed its limit: in small trees that are planted for it. */
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { describe, it } from "node:test";
import { figuresOf, judge, type Limited } from "../../scripts/check-house.ts";
import { GOALS } from "../../scripts/house-goals.ts";
import { PHRASE_SOURCES, RETIRED_NAMES, RETIRED_PHRASES } from "../../scripts/retired-names.ts";

const CLEAN: Readonly<Record<string, string>> = {
  "jsr.json": '{ "exports": { ".": "./lib/mod.ts" } }',
  "README.md": "# Planted\n",
  "lib/mod.ts": "export const createService = (): void => {};\nexport const fromFunctions = (): void => {};\n",
  "lib/http/handler.ts": "export {};\n",
  "adapters/sql/mod.ts": "export const sqlStorage = 1;\n",
  "server.ts": "export {};\n",
};

type Figures = Readonly<Record<string, ReadonlyMap<string, Limited>>>;

/** The figures of a clean tree with these files in it. */
async function planted(files: Readonly<Record<string, string>> = {}): Promise<Figures> {
  const root = mkdtempSync(join(tmpdir(), "greenroom-house-"));
  try {
    for (const [path, text] of Object.entries({ ...CLEAN, ...files })) {
      mkdirSync(dirname(join(root, path)), { recursive: true });
      writeFileSync(join(root, path), text);
    }
    const figures = Object.entries(await figuresOf(root));
    return Object.fromEntries(figures.map(([kind, rows]) => [kind, new Map(rows.map((row) => [row.key, row]))]));
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

const figureOf = (figures: Figures, kind: string, key: string): number => figures[kind]?.get(key)?.figure.value ?? 0;
const clean = await planted();
const lines = (count: number): string => `// A line\n`.repeat(count);
const code = (count: number): string => `void 0;\n`.repeat(count);

/** What exceeds each row, and by how much. */
const PLANTED: Readonly<Record<keyof typeof GOALS, readonly [files: Readonly<Record<string, string>>, more: number]>> =
  {
    code: [
      {
        "adapters/sql/more.ts": `/** Why\n * so.\n */\n\n${lines(7)}export const one = 1; // A reason\n/* So */\nexport {};\n`,
        "adapters/studio/page.ts": code(9),
      },
      2,
    ],
    files_in_lib: [{ "lib/more.ts": "export {};\n" }, 1],
    long_files: [{ "lib/http/long.ts": lines(451), "lib/http/short.ts": lines(450) }, 1],
    long_functions: [
      {
        "lib/http/f.ts": `export const f = (): void => {\n${lines(119)}};\nexport function g(): void {\n${lines(118)}}\n`,
        "lib/http/c.ts": `export class C {\n  verb(): void {\n${lines(130)}  }\n}\n`,
      },
      2,
    ],
    long_classes: [{ "lib/http/c.ts": `export class C {\n${lines(249)}}\nexport class D {\n${lines(248)}}\n` }, 1],
    circles: [
      {
        "lib/http/a.ts": 'import type { B } from "./b.ts";\nexport type A = B | 1;\n',
        "lib/http/b.ts": 'export type { C as B } from "./c.ts";\n',
        "lib/http/c.ts": 'export type C = typeof import("./a.ts") | 1;\nvoid import("../runs/d.ts");\n',
        "lib/runs/d.ts": 'import "../http/b.ts";\n',
        "lib/runs/outside.ts": 'import "./d.ts";\n',
      },
      1,
    ],
    files_in_circles: [
      {
        "lib/http/a.ts": 'import "./b.ts";\n',
        "lib/http/b.ts": 'import "./a.ts";\n',
        "lib/http/c.ts": 'import "./a.ts";\n',
      },
      2,
    ],
    upward: [
      {
        "lib/runs/more.ts": 'import "../http/handler.ts";\nimport "../threads/mod.ts";\nimport "./other.ts";\n',
        "lib/crons/more.ts": 'export type { P } from "../protocol/mod.ts";\n',
        "lib/http/more.ts": 'import "../runs/more.ts";\n',
      },
      2,
    ],
    early_uses: [
      {
        "lib/service/nouns.ts": `export function wire(): void {
  const events = make({ read: () => states.current, states: 1, worker: other.worker });
  const listen = (worker: number) => worker;
  const states = make(events);
  const { worker } = make(states);
  const later = (): void => { const worker = 1; use(worker, hoisted); };
  function hoisted(): void { use(worker); }
}\n`,
        "lib/service.ts":
          "export function start(): void {\n  use(nouns);\n  const { nouns, stop } = make(() => stop);\n}\n",
        "lib/runs/more.ts": "export function wire(): void {\n  const f = () => g;\n  const g = 1;\n}\n",
      },
      2,
    ],
    exports: [
      {
        "lib/mod.ts": `${CLEAN["lib/mod.ts"]}export * from "./http/all.ts";\nexport type { One as Other } from "./http/all.ts";\n`,
        "lib/http/all.ts": "export interface One {}\nexport const two = 2;\n",
      },
      3,
    ],
    readme_lines: [{ "README.md": "# Planted\n\nText\n" }, 2],
    visibility: [
      {
        "lib/runs/more.ts":
          "export const f = (v: Visibility, w?: Visibility) => withVisibility({}, v);\nexport type W = Visibility;\n",
      },
      3,
    ],
    visibility_outside: [
      { "lib/http/more.ts": "export let v: Visibility;\n", "lib/runs/more.ts": "export let v: Visibility;\n" },
      1,
    ],
    feedback_files: [
      {
        "lib/runs/more.ts": "export let feedbackLinks = 1;\n",
        "adapters/sql/more.ts": "// Feedback\n",
        "lib/feedback/mod.ts": "export let feedback = 1;\n",
        "adapters/sql/feedback.ts": "export let feedback = 1;\n",
        "adapters/studio/mod.ts": "export let feedback = 1;\n",
      },
      2,
    ],
    features_in_core: [
      {
        "adapters/sql/runs/end.ts": "// Feedback\n",
        "adapters/sql/runs/stop.ts": "export {};\n",
        "adapters/sql/runs/more.ts": "export let usage = 1;\n",
        "lib/engine/attempt-parts.ts": "export let webhook = 1;\n",
      },
      2,
    ],
    verbs: [
      { "lib/storage/runs.ts": "export interface RunStorage { a(): void; b(): void }\ninterface Row { c(): void }\n" },
      2,
    ],
    dead_verbs: [
      {
        "lib/storage/runs.ts": "export interface RunStorage { a(): void; b(): void }\n",
        "lib/runs/mod.ts": "storage.a();\n",
        "adapters/sql/runs.ts": "storage.b();\n",
      },
      1,
    ],
    handler_bundle: [
      {
        "lib/http/handler.ts": `import { later } from "./later.ts";\nexport const handler = ["${"x".repeat(500)}", later, () => import("./unloaded.ts")];\n`,
        "lib/http/later.ts": 'export const later = "";\n',
        "lib/http/unloaded.ts": `export const unloaded = "${"x".repeat(900)}";\n`,
      },
      500,
    ],
    core_bundle: [{ "lib/mod.ts": `${CLEAN["lib/mod.ts"]}console.log("${"x".repeat(500)}");\n` }, 500],
  };

describe("the table of the tree", () => {
  for (const [row, [files, more]] of Object.entries(PLANTED)) {
    it(`counts ${row}`, async () => {
      const grown = figureOf(await planted(files), "house", row) - figureOf(clean, "house", row);
      // A bundler adds a few characters of its own.
      if (row.endsWith("_bundle")) assert.ok(grown >= more && grown < more + 150, `${grown} bytes`);
      else assert.equal(grown, more);
    });
  }

  it("counts the lines of each folder", async () => {
    const figures = await planted({ "adapters/sql/runs/more.ts": code(3), "lib/http/more.ts": code(5) });
    const folders = [...(figures.folders ?? [])].map(([folder, { figure }]) => [folder, figure.value]);
    assert.deepEqual(Object.fromEntries(folders), { "adapters/sql": 4, lib: 2, "lib/http": 6, "server.ts": 1 });
  });

  it("fails above a limit and above a goal without a reason, hints below a limit, and never lowers a limit below its goal", () => {
    const row = { key: "rows", title: "Rows", goal: 2, figure: { value: 5, found: ["a.ts: 5"] } };
    const over = judge([row], { rows: 4 });
    assert.equal(over.failed, 1);
    assert.deepEqual(over.lines, ["| Rows | 5 | 4 | 2 | FAILED |", "    a.ts: 5"]);
    assert.deepEqual([over.lowered, over.needed], [{ rows: 4 }, { rows: 5 }]);
    assert.equal(judge([row], {}).failed, 1);
    const missed = judge([row], { rows: 5 });
    assert.deepEqual([missed.failed, missed.lines[0]], [1, "| Rows | 5 | 5 | 2 | FAILED |"]);
    const stated = judge([{ ...row, missed: "for a reason" }], { rows: 5 });
    assert.deepEqual([stated.failed, stated.lines], [0, ["| Rows | 5 | 5 | 2 | missed |", "    Missed: for a reason"]]);
    assert.equal(judge([{ ...row, missed: "for a reason" }], { rows: 4 }).failed, 1);
    const under = judge([{ ...row, figure: { value: 1, found: [] } }], { rows: 6 });
    assert.equal(under.failed, 0);
    assert.match(under.lines[1] as string, /Lower the limit to 2/);
    assert.deepEqual(under.lowered, { rows: 2 });
  });

  it("has a limit for nothing that is not measured", async () => {
    const limits = JSON.parse(readFileSync(resolve("scripts/house-limits.json"), "utf8")) as Record<string, object>;
    assert.deepEqual(Object.keys(limits), Object.keys(clean));
    const known: Readonly<Record<string, readonly string[]>> = {
      house: Object.keys(GOALS),
      names: RETIRED_NAMES.map(({ name }) => name),
      phrases: PHRASE_SOURCES,
    };
    for (const [kind, keys] of Object.entries(known))
      assert.deepEqual(
        Object.keys(limits[kind] ?? {}).filter((key) => !keys.includes(key)),
        [],
      );
  });
});

describe("retired names", () => {
  it("are each found as an identifier, and not in comments, strings or longer names", async () => {
    // A file for each name, where it has the meaning that is retired.
    const places = RETIRED_NAMES.map(({ name, only = ["lib/http"] }, index) => {
      const place = only[0] as string;
      return [place.endsWith(".ts") ? place : `${place}/planted${index}.ts`, name] as const;
    });
    const text = (name: string): string =>
      `// ${name}\nexport const all${name} = "${name}";\nexport const ${name} = { ${name}: 1 };\nclass C { #${name} = 1; }\n`;
    const { names } = await planted(Object.fromEntries(places.map(([place, name]) => [place, text(name)])));
    for (const { name } of RETIRED_NAMES) {
      const figure = names?.get(name)?.figure;
      assert.equal(figure?.value, 3, `${name}: ${figure?.found}`);
    }
    const [{ figure }] = [...(clean.names ?? new Map()).values()] as [Limited];
    assert.equal(figure.value, 0);
  });

  it("are left alone where the word means something else", async () => {
    const files = RETIRED_NAMES.flatMap(({ name, except = [] }, index) =>
      except.map((place) => {
        const path = place.endsWith(".ts") ? place : `${place}/planted${index}.ts`;
        return [path, `export const ${name} = 1;\n`] as const;
      }),
    );
    assert.ok(files.length > 0);
    const { names } = await planted(Object.fromEntries(files));
    for (const { key, figure } of names?.values() ?? []) assert.equal(figure.value, 0, key);
  });
});

it("retired phrases are found in README, in docs and in texts of the code, not in its comments", async () => {
  const all = RETIRED_PHRASES.join(", ");
  const figures = await planted({
    "README.md": `# Planted\n\n${all} and thereof, untold.\n`,
    "docs/deep/page.md": `Broken over lines: may be\nhad. ${all}.`,
    "lib/http/text.ts": `// ${all}\nexport const text = "${all}" + \`Was told \${1} by nobody\`;\nexport const told = "told";\n`,
  });
  const count = RETIRED_PHRASES.length;
  assert.equal(figureOf(figures, "phrases", "README.md"), count);
  assert.equal(figureOf(figures, "phrases", "docs"), count + 1);
  assert.equal(figureOf(figures, "phrases", "texts"), count + 2);
  assert.deepEqual(figures.phrases?.get("docs")?.figure.found[0], "docs/deep/page.md:1 may be had");
});
