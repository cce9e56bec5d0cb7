/** The groups of routes that a host may leave out. */
import type { JsonObject } from "../json.ts";

export type RouteGroup = "assistants" | "threads" | "runs" | "crons" | "store" | "meta" | "ui" | "mcp" | "a2a";

/** The first that fits decides: crons stand below runs, and runs below threads. */
const GROUPS: readonly (readonly [group: RouteGroup, paths: RegExp])[] = [
  ["crons", /^(?:\/threads\/[^/]+)?\/runs\/crons(?:\/|$)/],
  ["runs", /^(?:\/threads\/[^/]+)?\/runs(?:\/|$)/],
  ["threads", /^\/threads(?:\/|$)/],
  ["assistants", /^\/assistants(?:\/|$)/],
  ["store", /^\/store(?:\/|$)/],
  // Not /ok and /ready: whoever looks after the process asks them.
  ["meta", /^\/(?:info|metrics|docs|openapi\.json)\/*$/],
  ["ui", /^\/ui(?:\/|$)/],
  ["mcp", /^\/mcp(?:\/|$)/],
  ["a2a", /^\/a2a(?:\/|$)/],
];

/** What leaves groups out, as `disable_threads`. */
export type DisabledGroups = { readonly [Group in RouteGroup as `disable_${Group}`]?: boolean };

/** All of these options. */
export const GROUP_OPTIONS: readonly `disable_${RouteGroup}`[] = GROUPS.map(([group]) => `disable_${group}` as const);

export interface Groups {
  /** Whether there is nothing at this path of the mount. */
  hides(path: string): boolean;
  /** A description of the API without what is left out. */
  described<Description extends { readonly paths: object }>(description: Description): Description;
  /** The flags of `/info`: what is left out is not there. */
  flags(flags: Readonly<Record<string, boolean>>): Readonly<Record<string, boolean>>;
}

export function routeGroups(options: DisabledGroups = {}): Groups {
  const off = new Set(GROUPS.map(([group]) => group).filter((group) => options[`disable_${group}`] === true));
  const hides = (path: string): boolean => {
    if (off.size === 0) return false;
    const [group] = GROUPS.find(([, paths]) => paths.test(path)) ?? [];
    return group !== undefined && off.has(group);
  };
  return {
    hides,
    described(description) {
      const paths = Object.entries(description.paths as JsonObject).filter(([path]) => !hides(path));
      return { ...description, paths: Object.fromEntries(paths) };
    },
    flags: (flags) =>
      Object.fromEntries(
        Object.entries(flags).map(([name, on]) => [name, on && !(off as ReadonlySet<string>).has(name)]),
      ),
  };
}
