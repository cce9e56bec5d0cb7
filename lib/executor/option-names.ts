/** The names of settings of agents, and checks of options that agents and their functions give. */
import { suggestName } from "../validation.ts";
import type { AgentSettings } from "./agent-settings.ts";
import type { Schema } from "./agent-types.ts";

type MemberNames<Setting> = Setting extends object ? readonly (keyof Setting)[] : true;

/** The names of the members of each setting; true for a setting without members. */
const SETTINGS: { readonly [Name in keyof AgentSettings]-?: MemberNames<NonNullable<AgentSettings[Name]>> } = {
  max_attempts: true,
  timeout_ms: true,
  abandon_ms: true,
  resume: true,
  description: true,
  mcp: ["model_may_answer"],
  a2a: ["caller_may_approve"],
};

/** The names of all settings. */
export const AGENT_SETTING_NAMES: readonly string[] = Object.keys(SETTINGS);

/**
 * Returns a problem for each member of an agent with settings that is neither a setting nor in `otherNames`, and for each unknown member
 * of a setting. `label` names the agent. An instance of a class has no settings.
 */
export function findUnknownSettings(
  definition: object,
  otherNames: readonly string[],
  label: string,
): readonly string[] {
  const prototype = Object.getPrototypeOf(definition) as object | null;
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null) return [];
  const innerProblems = Object.entries(SETTINGS).flatMap(([name, memberNames]) => {
    const setting = (definition as Readonly<Record<string, unknown>>)[name];
    const isSection = memberNames !== true && typeof setting === "object" && setting !== null;
    return isSection ? findUnknownMembers(setting, memberNames, `${label}.${name}`) : [];
  });
  return [...findUnknownMembers(definition, [...AGENT_SETTING_NAMES, ...otherNames], label), ...innerProblems];
}

/** Returns a problem for each member of an object that is not in `knownNames`. */
export const findUnknownMembers = (object: object, knownNames: readonly string[], label: string): readonly string[] =>
  Object.keys(object)
    .filter((name) => !knownNames.includes(name))
    .map((name) => `${label}.${name}: unknown option${suggestOption(name, knownNames)}`);

/** Returns the end of the error of an unknown option: the known one that resembles it, else all. */
const suggestOption = (name: string, knownNames: readonly string[]): string =>
  suggestName(name, knownNames, `; known options: ${knownNames.filter((known) => !known.startsWith("~")).join(", ")}`);

/** Throws a `TypeError` that begins with `label` if `options` has a member that is not in `knownNames`. */
export function assertKnownOptions(options: object, knownNames: readonly string[], label: string): void {
  const unknownName = Object.keys(options).find((name) => !knownNames.includes(name));
  if (unknownName === undefined) return;
  throw new TypeError(
    `${label}: unknown option ${JSON.stringify(unknownName)}${suggestOption(unknownName, knownNames)}`,
  );
}

/** Returns true for a Standard Schema. Those of arktype are functions. */
export function isStandardSchema(value: unknown): value is Schema {
  if (value === null || (typeof value !== "object" && typeof value !== "function")) return false;
  const standard = (value as Partial<Schema>)["~standard"];
  return typeof standard === "object" && standard !== null && typeof standard.validate === "function";
}
