// Builds the studio page: adapters/studio/page → adapters/studio/assets.ts, a module that the server, bundlers and JSR can load.
//   node scripts/studio.mjs            builds, prints the sizes and checks them
//   node scripts/studio.mjs --watch    builds again whenever a source changes
//   node scripts/studio.mjs --metafile FILE    also writes which modules the page contains, as esbuild lists them
// Plain JavaScript that runs on Node 20 and on Bun before anything is built.
import { createHash } from "node:crypto";
import { writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { context } from "esbuild";

const PAGE = "adapters/studio/page";
const OUT = "adapters/studio/assets.ts";
/** Bytes after gzip. The first view is what a browser loads before it shows the list of threads. */
const LIMITS = { first: 102_000, all: 186_000 };
const TYPES = { js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8", svg: "image/svg+xml" };

/** The SDK's client reaches LangChain's messages, its tracing, and streams of its own. The page uses none of them: most of the SDK's size. */
const UNUSED = /^(?:langsmith|@langchain\/core)(?:\/|$)|^\.{1,2}\/stream\//;
const withoutStreams = {
  name: "without-streams",
  setup(build) {
    build.onResolve({ filter: UNUSED }, ({ path }) => ({ path, namespace: "empty" }));
    build.onLoad({ filter: /.*/, namespace: "empty" }, () => ({ contents: "module.exports = {};" }));
  },
};

const number = (value) => value.toLocaleString("en").padStart(9);

/** Returns the files that the entry loads without a dynamic import. */
function firstView(outputs, entry) {
  const files = new Set();
  const visit = (file) => {
    if (files.has(file) || !outputs[file]) return;
    files.add(file);
    for (const { path, kind } of outputs[file].imports) if (kind === "import-statement") visit(path);
  };
  visit(entry);
  return files;
}

function write({ outputFiles, metafile }) {
  const named = Object.keys(metafile.outputs);
  const findEntry = (name) => named.find((file) => metafile.outputs[file].entryPoint === `${PAGE}/${name}`);
  const [script, style, threads] = ["main.tsx", "style.css", "views/threads/view.tsx"].map(findEntry);
  const firstFiles = new Set([style, ...firstView(metafile.outputs, script), ...firstView(metafile.outputs, threads)]);
  const assets = {};
  const sizes = { first: 0, all: 0 };
  const rows = [];
  for (const { path, contents } of outputFiles) {
    const name = path.replaceAll("\\", "/").split("/").pop();
    const packed = gzipSync(contents, { level: 9 });
    const isFirst = [...firstFiles].some((file) => file?.endsWith(`/${name}`));
    sizes.all += packed.length;
    if (isFirst) sizes.first += packed.length;
    rows.push([packed.length, `${isFirst ? "first" : "later"}  ${name}`]);
    assets[name] = { type: TYPES[name.split(".").pop()], body: packed.toString("base64") };
  }
  const base = (file) => file.split("/").pop();
  const page = { script: base(script), style: base(style) };
  const etag = createHash("sha256")
    .update(JSON.stringify([page, Object.keys(assets)]))
    .digest("hex")
    .slice(0, 16);
  const text = `// Written by scripts/studio.mjs. Do not edit.
/** The files of the studio page: name → content type, and bytes (gzip, base64). */
export const assets: Readonly<Record<string, { readonly type: string; readonly body: string }>> = ${JSON.stringify(assets, null, 1)};
/** The entry files and the entity tag of the page. */
export const page: { readonly script: string; readonly style: string; readonly etag: string } = ${JSON.stringify({ ...page, etag })};
`;
  writeFileSync(OUT, text);
  return { rows, sizes };
}

const watch = process.argv.includes("--watch");
const quiet = process.argv.includes("--quiet");
const metafileAt = process.argv.includes("--metafile")
  ? process.argv[process.argv.indexOf("--metafile") + 1]
  : undefined;
const builder = await context({
  entryPoints: [`${PAGE}/main.tsx`, `${PAGE}/style.css`],
  bundle: true,
  splitting: true,
  format: "esm",
  platform: "browser",
  target: ["es2022", "chrome123", "firefox121", "safari17.5"],
  minify: !watch,
  jsx: "automatic",
  jsxImportSource: "preact",
  define: { "process.env.NODE_ENV": '"production"' },
  outdir: "studio",
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
  legalComments: "none",
  metafile: true,
  write: false,
  logLevel: "warning",
  plugins: [
    withoutStreams,
    {
      name: "assets",
      setup(build) {
        // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: prints one line for each figure, fewer if it is quiet
        build.onEnd((result) => {
          if (result.errors.length > 0) return;
          const { rows, sizes } = write(result);
          if (metafileAt) writeFileSync(metafileAt, JSON.stringify(result.metafile));
          if (!quiet)
            for (const [size, name] of rows.sort((a, b) => b[0] - a[0])) console.log(`${number(size)}  ${name}`);
          for (const [name, limit] of Object.entries(LIMITS)) {
            const over = sizes[name] > limit;
            if (over && !watch) process.exitCode = 1;
            if (over || !quiet)
              console.log(
                `${number(sizes[name])}  ${name} of ${number(limit).trim()} bytes${over ? ": TOO LARGE" : ""}`,
              );
          }
        });
      },
    },
  ],
});
if (watch) await builder.watch();
else {
  try {
    await builder.rebuild();
  } finally {
    await builder.dispose();
  }
}
