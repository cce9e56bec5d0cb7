/**
 * Fails for a cast, `any`, `!` or `@ts-` comment in a template, an example, a block of code of README.md and docs/, or an `@example` of
 * an exported function. What needs one has a wrong type: mend that. Prints each with its place.
 */
import { globSync, readFileSync } from "node:fs";
import process from "node:process";
import { readApiDocs } from "./api-docs.ts";
import { type CastException, type CodeBlock, findCasts, judgeCasts, readCodeBlocks } from "./casts.ts";

/** The casts that the wrong types of another package force. */
const EXCEPTIONS: readonly CastException[] = [];

/** Returns the files in their order. Throws if a pattern has none: then nothing would be checked. */
function listFiles(...patterns: readonly string[]): string[] {
  const files = patterns.flatMap((pattern) => {
    const paths = globSync(pattern, { exclude: (name) => name === "node_modules" });
    if (paths.length === 0) throw new Error(`No file has the form ${pattern}`);
    return paths;
  });
  return files.map((path) => path.replaceAll("\\", "/")).sort();
}

const programs = listFiles("templates/**/*.ts", "templates/**/*.tsx", "examples/**/*.ts", "examples/**/*.tsx").map(
  (path): CodeBlock => ({
    path,
    line: 1,
    language: path.endsWith("x") ? "tsx" : "ts",
    code: readFileSync(path, "utf8"),
  }),
);
const pages = listFiles("README.md", "docs/**/*.md", "templates/**/*.md").flatMap((path) =>
  readCodeBlocks(path, readFileSync(path, "utf8")),
);
const docExamples = readApiDocs().examples.map(
  ({ name, code }): CodeBlock => ({ path: `@example of ${name}`, line: 1, language: "ts", code }),
);
const blocks = [...programs, ...pages, ...docExamples];
const problems = judgeCasts(blocks.flatMap(findCasts), EXCEPTIONS);
for (const problem of problems) console.log(problem);
console.log(
  `${programs.length} programs, ${pages.length} blocks of pages and ${docExamples.length} examples: ${problems.length} casts`,
);
process.exitCode = problems.length > 0 ? 1 : 0;
