/** The lowest versions of the runtimes. It imports nothing, because other modules do not load on older ones. */
export const MIN_VERSIONS = { node: "22.13", bun: "1.4", deno: "2.9" } as const;

const NAMES = { node: "Node", bun: "Bun", deno: "Deno" } as const;

type Runtime = keyof typeof MIN_VERSIONS;

/** Returns a message about a runtime that is too old, or undefined. `versions` are those of `process`. */
export function findRuntimeProblem(versions: Readonly<Record<string, string | undefined>>): string | undefined {
  // Bun and Deno name a version of Node, too.
  const runtime: Runtime = (["bun", "deno"] as const).find((name) => versions[name]) ?? "node";
  const version = versions[runtime] || "0.0";
  if (!isOlder(version, MIN_VERSIONS[runtime])) return undefined;
  const { node, bun, deno } = MIN_VERSIONS;
  return `${NAMES[runtime]} ${version} is too old for Greenroom. Use Node ${node} or newer, Bun ${bun} or newer, or Deno ${deno} or newer`;
}

/** Compares the first two numbers of the versions. Returns true if the first version is lower. */
function isOlder(version: string, lowest: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const [lowestMajor = 0, lowestMinor = 0] = lowest.split(".").map(Number);
  return major === lowestMajor ? minor < lowestMinor : major < lowestMajor;
}
