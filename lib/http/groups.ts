/** The groups of routes that a host may disable. */

export type RouteGroup =
  | "assistants"
  | "threads"
  | "runs"
  | "crons"
  | "store"
  | "meta"
  | "ui"
  | "mcp"
  | "a2a"
  | "operations";

/** The options that disable groups, as `disable_threads`. */
export type DisabledGroups = { readonly [Group in RouteGroup as `disable_${Group}`]?: boolean };

const GROUPS: readonly RouteGroup[] = [
  ...(["crons", "runs", "threads", "assistants", "store", "meta", "ui", "mcp", "a2a", "operations"] as const),
];

/** All of these options. */
export const GROUP_OPTIONS: readonly `disable_${RouteGroup}`[] = GROUPS.map((group) => `disable_${group}` as const);

/** The groups that these options disable. */
export const disabledGroups = (options: DisabledGroups): ReadonlySet<string> =>
  new Set(GROUPS.filter((group) => options[`disable_${group}`] === true));
