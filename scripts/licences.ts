/** Collects the licences of the packages whose code Greenroom's packages contain: `THIRD-PARTY-LICENSES`, which npm and JSR ship. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** A package, in the version whose code is shipped. `folder`: where it is installed; undefined if another package's bundle contains it. */
interface ThirdPartyPackage {
  readonly name: string;
  readonly version: string | undefined;
  readonly folder: string | undefined;
}

/** The folder and name of the innermost package of a path. */
const PACKAGE = /^(?:.*\/)?node_modules\/((?:@[^/]+\/)?[^/.][^/]*)(?=\/)/;
/** The version of a package in the folders of pnpm, which some bundles name. */
const PNPM_VERSION = /\/\.pnpm\/@?[^/@]+@(\d[^/_(]*)[^/]*\/node_modules\/(?:@[^/]+\/)?[^/]+$/;

/** Returns the package that a module belongs to, or undefined for our own modules. `path`: with slashes, relative to `root`. */
function findPackage(root: string, path: string): ThirdPartyPackage | undefined {
  const match = PACKAGE.exec(path);
  if (!match) return undefined;
  const [folder, name = ""] = match;
  const manifest = join(root, folder, "package.json");
  if (!existsSync(manifest)) return { name, version: PNPM_VERSION.exec(folder)?.[1], folder: undefined };
  const { version } = JSON.parse(readFileSync(manifest, "utf8")) as { version: string };
  return { name, version, folder: join(root, folder) };
}

/** Licences of packages that come without a file of their own: `@babel.txt` is for the whole scope, `@babel+parser.txt` for one package. */
const TEXTS = join(import.meta.dirname, "licences");

/** Returns the text of the package's licence files. Throws if there are none. */
function readLicence({ name, folder }: ThirdPartyPackage): string {
  const ownFiles = folder ? readdirSync(folder).filter((file) => /^(?:licen[sc]e|copying|notice)/i.test(file)) : [];
  const storedTexts = [name.replace("/", "+"), name.split("/")[0]].map((text) => join(TEXTS, `${text}.txt`));
  const files =
    folder && ownFiles.length > 0
      ? ownFiles.sort().map((file) => join(folder, file))
      : storedTexts.filter(existsSync).slice(0, 1);
  if (files.length === 0) {
    const location = folder ?? "another package's bundle";
    throw new Error(
      `${name} has no licence file in ${location}. Add its licence as scripts/licences/${name.replace("/", "+")}.txt.`,
    );
  }
  const texts = files.map((file) => readFileSync(file, "utf8").replaceAll("\r\n", "\n").trim());
  return texts.join("\n\n");
}

/** Modules of a part of what is shipped. Their paths have slashes and are relative to the root, as in the metafile of esbuild. */
export interface ShippedModules {
  /** The part, such as "studio". */
  readonly part: string;
  readonly modules: readonly string[];
}

const INTRODUCTION = `Third-party licences

Greenroom's packages contain code of the packages below. "studio" is the page in
adapters/studio. "dist" is in the npm package only.
`;

/**
 * Returns the text of THIRD-PARTY-LICENSES: each package once, with its licence, and packages with the same licence text together.
 * Throws if a package has no licence file.
 */
export function listLicences(root: string, shipped: readonly ShippedModules[]): string {
  const titles = new Map<string, { readonly text: string; readonly parts: Set<string> }>();
  for (const { part, modules } of shipped) {
    for (const path of modules) {
      const owner = findPackage(root, path.replaceAll("\\", "/"));
      if (!owner) continue;
      const title = [owner.name, owner.version].filter(Boolean).join(" ");
      const entry = titles.get(title) ?? { text: readLicence(owner), parts: new Set<string>() };
      titles.set(title, entry);
      entry.parts.add(part);
    }
  }
  const byText = Map.groupBy(
    [...titles].sort(([a], [b]) => (a < b ? -1 : 1)),
    ([, { text }]) => text,
  );
  const sections = [...byText].map(([text, packages]) => {
    const names = packages.map(([title, { parts }]) => `${title} (${[...parts].sort().join(", ")})`);
    return `${"=".repeat(80)}\n${names.join("\n")}\n${"-".repeat(80)}\n${text}\n`;
  });
  return [INTRODUCTION, ...sections].join("\n");
}
