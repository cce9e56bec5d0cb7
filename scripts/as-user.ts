/** A folder outside the checkout that has this package, as built, and the packages beside it as a user has them. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

export interface UserFolder extends Disposable {
  readonly path: string;
  /** The path of a file in it. */
  at(file: string): string;
}

export function userFolder(): UserFolder {
  const root = resolve(".");
  const path = mkdtempSync(join(tmpdir(), "greenroom-user-"));
  const at = (file: string): string => join(path, file);
  mkdirSync(at("node_modules/.bin"), { recursive: true });
  for (const name of readdirSync("node_modules")) {
    if (!name.startsWith(".")) symlinkSync(join(root, "node_modules", name), at(`node_modules/${name}`));
  }
  symlinkSync(root, at("node_modules/greenroom"));
  symlinkSync(join(root, "dist/adapters/standalone/bin.js"), at("node_modules/.bin/greenroom"));
  writeFileSync(at("package.json"), '{ "private": true, "type": "module" }\n');
  return { path, at, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true, maxRetries: 5 }) };
}
