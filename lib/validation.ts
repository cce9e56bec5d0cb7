/** Validates input with Valibot: schemas of options, the findings of a value with their places, and spelling hints. */
import * as v from "valibot";
import type { InputIssue } from "./errors.ts";
import { isObject } from "./json.ts";

export type Schema = v.GenericSchema<unknown>;

/** A schema with the text of its findings. */
export type Rule = Schema & { readonly message?: unknown };

/** A schema of named members. */
export interface Section extends Schema {
  readonly members: Readonly<Record<string, Rule>>;
}

/** True for text that every database stores unchanged in a plain column. */
export const isStorable = (value: string): boolean => !value.includes("\0") && value.isWellFormed();
export const NOT_STORABLE = "must not contain U+0000 or lone surrogates";

/** True when the text has more than `most` code points. */
export const isLongerThan = (value: string, limit: number): boolean =>
  value.length > limit && (value.length > 2 * limit || [...value].length > limit);

/** The most code points of a name: of a workspace, a project or a user. */
export const MAX_NAME_CHARS = 255;
export const isName = (name: string): boolean =>
  name !== "" && name.trim() === name && isStorable(name) && !isLongerThan(name, MAX_NAME_CHARS);

/** Returns true if arrays and objects nest more than `levels` deep. */
export const isDeeperThan = (value: unknown, levels: number): boolean =>
  typeof value === "object" &&
  value !== null &&
  (levels === 0 || Object.values(value).some((inner) => isDeeperThan(inner, levels - 1)));

/** The error text of a value that is not `isFiniteJson`. */
export const NUMBER_OUT_OF_RANGE = "must not contain numbers beyond the range of a double";

/**
 * Returns false if a value has an infinite number or NaN at any depth: JSON.parse reads 1e999 as Infinity, which JSON.stringify
 * would write as null.
 */
export function isFiniteJson(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return typeof value !== "number" || Number.isFinite(value);
  return (Array.isArray(value) ? value : Object.values(value)).every(isFiniteJson);
}

/** A value that `fits`. */
export const valueMatching = (fits: (value: unknown) => boolean, msg: string): Rule => v.custom(fits, msg);
/** A value that other code validates. */
export const anything: Schema = valueMatching(() => true, "");
export const flag: v.GenericSchema<boolean> = v.boolean("must be true or false");
export const callable: Schema = valueMatching((value) => typeof value === "function", "must be a function");
export const isIntegerBetween = (value: unknown, min: number, max: number): boolean =>
  Number.isInteger(value) && (value as number) >= min && (value as number) <= max;
export const integerBetween = (min: number, max: number): Schema =>
  valueMatching((value) => isIntegerBetween(value, min, max), `must be a whole number from ${min} to ${max}`);
export const stringMatching = (fits: (value: string) => boolean, msg: string): Schema =>
  valueMatching((value) => typeof value === "string" && fits(value), msg);
export const stringEnum = <const Options extends readonly string[]>(
  options: Options,
): v.GenericSchema<Options[number]> => v.picklist(options, `must be one of ${options.join(", ")}`);
/** Returns the schema of a list of strings for which `fits` returns true; an empty list is valid. `what` ends its message. */
export const listOfStrings = (fits: (item: string) => boolean, what: string): Schema =>
  valueMatching(
    (value) => Array.isArray(value) && value.every((item) => typeof item === "string" && fits(item)),
    `must be a list of ${what}`,
  );

/** The type of findings about unknown members. */
export const UNKNOWN_OPTION = "unknown_option";

/**
 * Returns the schema of an object that has only these members; it reports each unknown one with a hint. Undefined counts as
 * absent, and as wrong for those that are `required`.
 */
export function strictSection(
  members: Section["members"],
  required: readonly string[] = [],
  unknown = "unknown option",
): Section {
  const names = Object.keys(members);
  const knownHint = names.length > 8 ? "" : `; known: ${names.join(", ")}`;
  const unknownText = (key: string): string => unknown + suggestName(key, names, knownHint);
  const entries = Object.entries(members).map(([key, schema]) => [
    key,
    required.includes(key) ? schema : v.optional(schema),
  ]);
  const strict = v.strictObject(Object.fromEntries(entries) as Section["members"], ({ expected, path }) => {
    const key = String(path?.[0].key);
    return expected === UNKNOWN_MEMBER ? unknownText(key) : String(members[key]?.message);
  });
  const object = v.pipe(
    v.custom<object>(isObject, "must be an object"),
    strict,
    v.rawCheck(({ dataset: { issues }, addIssue }) => {
      // strictObject reports the first unknown member alone.
      const first = issues?.find(({ expected, path }) => expected === UNKNOWN_MEMBER && path?.length === 1)?.path?.[0];
      if (!first) return;
      const input = first.input as Readonly<Record<string, unknown>>;
      for (const key of Object.keys(input).filter((name) => name !== first.key && !names.includes(name))) {
        const item = { type: "object", origin: "key", input, key, value: input[key] } as const;
        addIssue({ message: unknownText(key), expected: UNKNOWN_MEMBER, path: [item] });
      }
    }),
  );
  return Object.assign(object, { members });
}

/** The expectation in Valibot's issue for an unknown member. */
const UNKNOWN_MEMBER = "never";

/** Converts an issue of Valibot to a finding, with its path after `loc`. An unknown member gets the type of an unknown option. */
export const toInputIssue = (
  { path, message, type, expected }: v.BaseIssue<unknown>,
  loc: InputIssue["loc"] = [],
): InputIssue => ({
  loc: [...loc, ...(path ?? []).map(({ key }) => key as string | number)],
  msg: message,
  type: expected === UNKNOWN_MEMBER ? UNKNOWN_OPTION : type,
});

/**
 * Returns every finding of a value, in the order of the members of the value, with paths after `loc`; an empty list if it is
 * valid.
 */
export const findIssues = (schema: Schema, value: unknown, loc: InputIssue["loc"] = []): InputIssue[] =>
  (v.safeParse(schema, value).issues ?? [])
    .map((issue) => toInputIssue(issue))
    .map((issue) => ({ issue, order: toMemberIndexes(value, issue.loc) }))
    .sort((a, b) => compareIndexes(a.order, b.order))
    .map(({ issue }) => ({ ...issue, loc: [...loc, ...issue.loc] }));

/** Returns the index of each member of a path in the object that has it; −1 for one that is absent. */
function toMemberIndexes(value: unknown, [key, ...inner]: InputIssue["loc"]): number[] {
  if (key === undefined) return [];
  const object = Object(value) as Readonly<Record<string, unknown>>;
  return [Object.keys(object).indexOf(String(key)), ...toMemberIndexes(object[key], inner)];
}

/**
 * Compares the first indexes that differ, for a sort. Returns 0 if all indexes of `a` are those of `b`; a missing index of `b`
 * counts as 0.
 */
function compareIndexes(a: readonly number[], b: readonly number[]): number {
  const index = a.findIndex((number, i) => number !== b[i]);
  return (a[index] ?? 0) - (b[index] ?? 0);
}

/** A finding as a line of a ConfigError. */
export const formatIssue = ({ loc, msg }: InputIssue): string => `${loc.join(".")}: ${msg}`;

export const findProblems = (schema: Schema, value: unknown, ...loc: readonly string[]): string[] =>
  findIssues(schema, value, loc).map(formatIssue);

/** Returns a new object with the overrides over the defaults. An undefined override counts as absent. */
export const withDefaults = <Values extends object>(defaults: Values, overrides: Partial<Values> = {}): Values => ({
  ...defaults,
  ...Object.fromEntries(Object.entries(overrides).filter(([, value]) => value !== undefined)),
});

const normalizeWord = (key: string): string => key.toLowerCase().replace(/[^a-z0-9]/g, "");

/**
 * Returns `; did you mean X?` with the most similar known name for a misspelt word: it differs only in case and punctuation, or
 * in one or two adjacent letters. Returns `otherwise` if there is none.
 */
export function suggestName(word: string, knownNames: Iterable<string>, otherwise = ""): string {
  const normalized = normalizeWord(word);
  let maxDifference = normalized.length < 4 ? 2 : 3;
  let hint = otherwise;
  for (const candidate of knownNames) {
    const normalizedCandidate = normalizeWord(candidate);
    let start = 0;
    while (start < normalized.length && normalized[start] === normalizedCandidate[start]) start += 1;
    let end = 0;
    const remainingLength = Math.min(normalized.length, normalizedCandidate.length) - start;
    while (end < remainingLength && normalized.at(-1 - end) === normalizedCandidate.at(-1 - end)) end += 1;
    const differingLetters = Math.max(normalized.length, normalizedCandidate.length) - start - end;
    if (differingLetters < maxDifference) [hint, maxDifference] = [`; did you mean ${candidate}?`, differingLetters];
  }
  return hint;
}

/**
 * Returns the first key of `options` that is not in `knownKeys`, as the end of an error text; undefined if all are known.
 * `assistantId` becomes `unknown key "assistantId"; did you mean assistant_id?`.
 */
export function findUnknownKey(options: object, knownKeys: readonly string[]): string | undefined {
  const key = Object.keys(options).find((name) => !knownKeys.includes(name));
  if (key === undefined) return undefined;
  return `unknown key ${JSON.stringify(key)}${suggestName(key, knownKeys, `; known keys: ${knownKeys.join(", ")}`)}`;
}
