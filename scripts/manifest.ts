/**
 * Takes the sources out of package.json while npm packs it, and puts them back: the package has no sources. `exports` in jsr.json
 * names the same files.
 *
 *   node scripts/manifest.ts trim | restore
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";

const manifestFile = "package.json";
const backupFile = "node_modules/.package.json";

/** Puts the whole package.json back, also that of an earlier run that was ended. */
function restore(): void {
  if (existsSync(backupFile)) renameSync(backupFile, manifestFile);
}

function trim(): void {
  restore();
  const text = readFileSync(manifestFile, "utf8");
  writeFileSync(backupFile, text);
  const trimmed = JSON.stringify(
    JSON.parse(text, (key, value: unknown) => (key === "greenroom-source" ? undefined : value)),
    null,
    2,
  );
  writeFileSync(manifestFile, `${trimmed}\n`);
}

if (process.argv[2] === "trim") trim();
else if (process.argv[2] === "restore") restore();
else throw new Error("Name what to do: node scripts/manifest.ts trim | restore");
