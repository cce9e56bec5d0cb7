/**
 * Runs case files against the product.
 *
 *   npm run cases -- [DIR]     every case file in DIR; without it those beside this program
 *
 * What fails is told, with what was expected; the last line is `N passed, N failed`. What a file asks for and this program does
 * not know is a case that fails. The same on Bun and Deno.
 */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import type { Case } from "./case.ts";
import { readCases } from "./files.ts";

/** Resolves DIR from the working directory of the command: npm starts programs in the package's folder. */
function resolveFolder(path: string): string {
  const from = process.env["INIT_CWD"];
  return existsSync(path) || from === undefined ? path : resolve(from, path);
}

const PATIENCE_MS = 60_000;

/** Errors that were not caught: they belong to the case that runs. */
const stray: unknown[] = [];
for (const event of ["uncaughtException", "unhandledRejection"]) {
  process.on(event, (error: unknown) => void stray.push(error));
}

/** Rejects with what is wrong, also when the case comes to no end. */
async function runToEnd({ run }: Case): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no end after ${PATIENCE_MS / 1_000} seconds`)), PATIENCE_MS);
  });
  try {
    await Promise.race([run(), late]);
  } finally {
    clearTimeout(timer);
  }
  const [error] = stray.splice(0);
  if (error !== undefined) throw error;
}

async function main(path: string): Promise<number> {
  let cases: readonly Case[];
  try {
    cases = readCases(path);
  } catch (error) {
    console.log(`${path}: ${(error as Error).message}`);
    cases = [];
  }
  let failed = cases.length === 0 ? 1 : 0;
  let passed = 0;
  for (const testCase of cases) {
    try {
      await runToEnd(testCase);
      passed += 1;
    } catch (error) {
      failed += 1;
      const message = error instanceof Error ? error.message : String(error);
      console.log(`FAILED ${testCase.name}\n  ${message.trim().replaceAll("\n", "\n  ")}`);
    }
  }
  console.log(`${passed} passed, ${failed} failed`);
  return failed === 0 ? 0 : 1;
}

// Services of cases hold timers; nothing is left to wait for.
const [, , folderArgument] = process.argv;
process.exit(
  await main(
    folderArgument === undefined ? fileURLToPath(new URL(".", import.meta.url)) : resolveFolder(folderArgument),
  ),
);
