/** The names of settings of agents, and checks of options that agents and their functions give. */
import { suggestName } from "../validation.ts";
import type { AgentSettings } from "./agent-settings.ts";
import type { Schema } from "./agent-types.ts";

const SETTINGS: Record<keyof AgentSettings, true> = {
  max_attempts: true,
  timeout_ms: true,
  abandon_ms: true,
  resume: true,
  description: true,
  mcp: true,
  a2a: true,
};

/** The names of all settings. */
export const AGENT_SETTING_NAMES: readonly string[] = Object.keys(SETTINGS);

/** Throws a `TypeError` that begins with `label` if `options` has a member that is not in `knownNames`. */
export function assertKnownOptions(options: object, knownNames: readonly string[], label: string): void {
  const unknownName = Object.keys(options).find((name) => !knownNames.includes(name));
  if (unknownName === undefined) return;
  const hint = suggestName(unknownName, knownNames, `; known options: ${knownNames.join(", ")}`);
  throw new TypeError(`${label}: unknown option ${JSON.stringify(unknownName)}${hint}`);
}

/** Returns true for a Standard Schema. Those of arktype are functions. */
export function isStandardSchema(value: unknown): value is Schema {
  if (value === null || (typeof value !== "object" && typeof value !== "function")) return false;
  const standard = (value as Partial<Schema>)["~standard"];
  return typeof standard === "object" && standard !== null && typeof standard.validate === "function";
}
