/** A folder outside the checkout that has this package, as built, and the packages beside it as a user has them. */
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";

export interface UserFolder extends Disposable {
  readonly path: string;
  /** Returns the path of a file in the folder. */
  at(file: string): string;
}

/** Creates the folder of a user. Only `packages` are installed in it beside Greenroom; by default all of the checkout. */
export function userFolder(packages: readonly string[] = readdirSync("node_modules")): UserFolder {
  const root = resolve(".");
  const path = mkdtempSync(join(tmpdir(), "greenroom-user-"));
  const at = (file: string): string => join(path, file);
  mkdirSync(at("node_modules/.bin"), { recursive: true });
  for (const name of packages) {
    if (name.startsWith(".")) continue;
    // The folder of a scope exists only if one of its packages was linked before.
    mkdirSync(dirname(at(`node_modules/${name}`)), { recursive: true });
    symlinkSync(join(root, "node_modules", name), at(`node_modules/${name}`));
  }
  // A copy where packages are left out: bundlers would find them beside the checkout that a link leads to.
  if (packages.length < readdirSync("node_modules").length) copyPackage(root, at("node_modules/greenroom"));
  else symlinkSync(root, at("node_modules/greenroom"));
  symlinkSync(join(root, "dist/adapters/standalone/bin.js"), at("node_modules/.bin/greenroom"));
  writeFileSync(at("package.json"), '{ "private": true, "type": "module" }\n');
  return { path, at, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true, maxRetries: 5 }) };
}

function copyPackage(root: string, to: string): void {
  for (const name of ["package.json", "dist"]) cpSync(join(root, name), join(to, name), { recursive: true });
}
