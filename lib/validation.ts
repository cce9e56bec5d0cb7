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
export const longerThan = (value: string, most: number): boolean =>
  value.length > most && (value.length > 2 * most || [...value].length > most);

/** The most code points of a name: of a workspace, a project or a user. */
export const NAME_LENGTH = 255;
export const isName = (name: string): boolean =>
  name !== "" && name.trim() === name && isStorable(name) && !longerThan(name, NAME_LENGTH);

/** True when arrays and objects nest more than `levels` deep. */
export const deeperThan = (value: unknown, levels: number): boolean =>
  typeof value === "object" &&
  value !== null &&
  (levels === 0 || Object.values(value).some((inner) => deeperThan(inner, levels - 1)));

/** The error text of a value that is not `isFiniteJson`. */
export const BEYOND = "must not contain numbers beyond the range of a double";

/** False for numbers such as 1e999: JSON.parse reads Infinity, which JSON.stringify would write as null. */
export function isFiniteJson(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return typeof value !== "number" || Number.isFinite(value);
  return (Array.isArray(value) ? value : Object.values(value)).every(isFiniteJson);
}

/** A value that `fits`. */
export const rule = (fits: (value: unknown) => boolean, msg: string): Rule => v.custom(fits, msg);
/** A value that other code validates. */
export const anything: Schema = rule(() => true, "");
export const flag: v.GenericSchema<boolean> = v.boolean("must be true or false");
export const callable: Schema = rule((value) => typeof value === "function", "must be a function");
export const isWhole = (value: unknown, min: number, max: number): boolean =>
  Number.isInteger(value) && (value as number) >= min && (value as number) <= max;
export const whole = (min: number, max: number): Schema =>
  rule((value) => isWhole(value, min, max), `must be a whole number from ${min} to ${max}`);
export const text = (fits: (value: string) => boolean, msg: string): Schema =>
  rule((value) => typeof value === "string" && fits(value), msg);
export const oneOf = <const Options extends readonly string[]>(options: Options): v.GenericSchema<Options[number]> =>
  v.picklist(options, `must be one of ${options.join(", ")}`);
/** A list of texts that all fit. */
export const texts = (fits: (item: string) => boolean, what: string): Schema =>
  rule(
    (value) => Array.isArray(value) && value.every((item) => typeof item === "string" && fits(item)),
    `must be a list of ${what}`,
  );

/** The type of findings about unknown members. */
export const UNKNOWN = "unknown_option";

/** An object that has only these members. Undefined counts as absent, and as wrong for those that are `required`. */
export function section(
  members: Section["members"],
  required: readonly string[] = [],
  unknown = "unknown option",
): Section {
  const names = Object.keys(members);
  const known = names.length > 8 ? "" : `; known: ${names.join(", ")}`;
  const unknownText = (key: string): string => unknown + didYouMean(key, names, known);
  const entries = Object.entries(members).map(([key, schema]) => [
    key,
    required.includes(key) ? schema : v.optional(schema),
  ]);
  const strict = v.strictObject(Object.fromEntries(entries) as Section["members"], ({ expected, path }) => {
    const key = String(path?.[0].key);
    return expected === NONE ? unknownText(key) : String(members[key]?.message);
  });
  const object = v.pipe(
    v.custom<object>(isObject, "must be an object"),
    strict,
    v.rawCheck(({ dataset: { issues }, addIssue }) => {
      // strictObject reports the first unknown member alone.
      const first = issues?.find(({ expected, path }) => expected === NONE && path?.length === 1)?.path?.[0];
      if (!first) return;
      const input = first.input as Readonly<Record<string, unknown>>;
      for (const key of Object.keys(input).filter((name) => name !== first.key && !names.includes(name))) {
        const item = { type: "object", origin: "key", input, key, value: input[key] } as const;
        addIssue({ message: unknownText(key), expected: NONE, path: [item] });
      }
    }),
  );
  return Object.assign(object, { members });
}

/** What Valibot expects in the place of an unknown member. */
const NONE = "never";

/** An issue of Valibot as a finding, at its place below `loc`. */
export const findingOf = (
  { path, message, type, expected }: v.BaseIssue<unknown>,
  loc: InputIssue["loc"] = [],
): InputIssue => ({
  loc: [...loc, ...(path ?? []).map(({ key }) => key as string | number)],
  msg: message,
  type: expected === NONE ? UNKNOWN : type,
});

/** Every finding of a value, in the order of the value. */
export const findings = (schema: Schema, value: unknown, loc: InputIssue["loc"] = []): InputIssue[] =>
  (v.safeParse(schema, value).issues ?? [])
    .map((issue) => findingOf(issue))
    .map((issue) => ({ issue, order: orderOf(value, issue.loc) }))
    .sort((a, b) => compare(a.order, b.order))
    .map(({ issue }) => ({ ...issue, loc: [...loc, ...issue.loc] }));

/** The number of each member of a place in the object that has it; −1 for one that is absent. */
function orderOf(value: unknown, [key, ...inner]: InputIssue["loc"]): number[] {
  if (key === undefined) return [];
  const object = Object(value) as Readonly<Record<string, unknown>>;
  return [Object.keys(object).indexOf(String(key)), ...orderOf(object[key], inner)];
}

function compare(a: readonly number[], b: readonly number[]): number {
  const at = a.findIndex((number, i) => number !== b[i]);
  return (a[at] ?? 0) - (b[at] ?? 0);
}

/** A finding as a line of a ConfigError. */
export const lineOf = ({ loc, msg }: InputIssue): string => `${loc.join(".")}: ${msg}`;

export const problemsIn = (schema: Schema, value: unknown, ...loc: readonly string[]): string[] =>
  findings(schema, value, loc).map(lineOf);

/** `given` over the defaults. An undefined member counts as absent. */
export const withDefaults = <Values extends object>(defaults: Values, given: Partial<Values> = {}): Values => ({
  ...defaults,
  ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)),
});

const plain = (key: string): string => key.toLowerCase().replace(/[^a-z0-9]/g, "");

/**
 * `; did you mean X?` for a misspelt known word, which differs only in case and punctuation, or in one or two adjacent letters.
 * Otherwise `otherwise`.
 */
export function didYouMean(word: string, known: Iterable<string>, otherwise = ""): string {
  const sent = plain(word);
  let least = sent.length < 4 ? 2 : 3;
  let hint = otherwise;
  for (const candidate of known) {
    const other = plain(candidate);
    let start = 0;
    while (start < sent.length && sent[start] === other[start]) start += 1;
    let end = 0;
    const rest = Math.min(sent.length, other.length) - start;
    while (end < rest && sent.at(-1 - end) === other.at(-1 - end)) end += 1;
    const letters = Math.max(sent.length, other.length) - start - end;
    if (letters < least) [hint, least] = [`; did you mean ${candidate}?`, letters];
  }
  return hint;
}

/**
 * The first key of `given` that is not in `known`, as the end of an error text; undefined if all are known.
 * `assistantId` becomes `unknown key "assistantId"; did you mean assistant_id?`.
 */
export function unknownKey(given: object, known: readonly string[]): string | undefined {
  const key = Object.keys(given).find((name) => !known.includes(name));
  if (key === undefined) return undefined;
  return `unknown key ${JSON.stringify(key)}${didYouMean(key, known, `; known keys: ${known.join(", ")}`)}`;
}
