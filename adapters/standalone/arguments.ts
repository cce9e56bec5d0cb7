/** Reads what follows the words of a command: positionals, options and their values. */
import { parseArgs } from "node:util";
import { ConfigError } from "../../lib/mod.ts";
import { suggestName } from "../../lib/validation.ts";

/** A word of a command line: an option, or a positional, which has no name. */
interface ArgumentToken {
  /** Position in the list of arguments. */
  readonly index: number;
  readonly name?: string;
  /** The word as the user typed it. */
  readonly rawName: string;
  readonly value: string | undefined;
  /** True if the value follows an `=` in the same word. */
  readonly inlineValue: boolean;
}

/**
 * Splits a command line into options and positionals, in order. Options named in `valueOptions` take a value; unknown
 * options and missing values are not refused here, so it does not throw. `--` is left out.
 */
export function parseTokens(args: readonly string[], valueOptions: readonly string[]): readonly ArgumentToken[] {
  const { tokens } = parseArgs({
    args: [...args],
    options: {
      help: { type: "boolean", short: "h" },
      version: { type: "boolean", short: "v" },
      ...Object.fromEntries(valueOptions.map((name) => [name, { type: "string" as const }])),
    },
    // The callers report every problem at once, with a suggestion for unknown options.
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  return tokens.flatMap((token): ArgumentToken[] => {
    if (token.kind === "option-terminator") return [];
    if (token.kind === "option") return [{ ...token, inlineValue: token.inlineValue ?? false }];
    return [{ index: token.index, rawName: token.value, value: token.value, inlineValue: false }];
  });
}

/** The arguments of a command, validated as far as possible without the database. */
export interface CommandInput {
  /** Returns the positional with this name. */
  positional(name: string): string;
  option(name: string): string | undefined;
  list(name: string): readonly string[] | undefined;
  readonly now: number;
}

/** The arguments of a command, in addition to `--json`, `--help` and the options of the database. */
export interface CommandArguments {
  readonly positionals?: readonly string[];
  /** Option names with the words for their values in the usage text. */
  readonly options?: Readonly<Record<string, string>>;
  /** Returns the problems that can be found without the database. */
  validate?(input: CommandInput): readonly string[];
}

/** Options that may be given again, or as a list with commas. */
const LIST_OPTIONS = new Set(["permission", "workspaces"]);
/** Options that say where the database is. `readPlace` reads them. */
const DATABASE_OPTIONS = ["config", "database"];

/** Returns what is wrong with an option that a command does not have, with the one of its names that is most like it, if one is. */
export const describeUnknownOption = (rawName: string, optionNames: readonly string[]): string =>
  `${rawName}: unknown option${suggestName(
    rawName,
    optionNames.map((name) => `--${name}`),
    "; see --help",
  )}`;

/**
 * Returns what is wrong with an option: an unknown name, a missing or superfluous value, or a repetition of one that
 * takes no list. Undefined if it is right.
 */
function findOptionProblem(
  { name, rawName, value, inlineValue }: ArgumentToken & { readonly name: string },
  valueOptions: readonly string[],
  isRepeated: boolean,
): string | undefined {
  if (name === "json" || name === "help") return value === undefined ? undefined : `${rawName}: takes no value`;
  if (!valueOptions.includes(name)) return describeUnknownOption(rawName, [...valueOptions, "json", "help"]);
  if (!value) return `${rawName}: needs a value`;
  if (!inlineValue && value.startsWith("-"))
    return `${rawName}: needs a value; one that starts with - is written ${rawName}=${value}`;
  return isRepeated && !LIST_OPTIONS.has(name) ? `${rawName}: given twice` : undefined;
}

/** Returns the values of an option: several for a list, none for an empty one. */
function splitValue(name: string, value: string | undefined): readonly string[] {
  if (!value) return [];
  return LIST_OPTIONS.has(name) ? value.split(",") : [value];
}

/**
 * Returns the positionals and options of an account command. Throws a ConfigError with every problem, those of
 * `validate` included, unless help is requested.
 */
export function readArguments(
  args: readonly string[],
  { positionals: positionalNames = [], options = {}, validate }: CommandArguments,
  now: number = Date.now(),
): { readonly input: CommandInput; readonly json: boolean; readonly help: boolean } {
  const valueOptions = [...Object.keys(options), ...DATABASE_OPTIONS];
  const problems: string[] = [];
  const values = new Map<string, string[]>();
  const positionals: string[] = [];
  for (const token of parseTokens(args, valueOptions)) {
    const { name, rawName, value } = token;
    if (name === undefined) {
      positionals.push(rawName);
      continue;
    }
    const earlier = values.get(name) ?? [];
    const problem = findOptionProblem({ ...token, name }, valueOptions, earlier.length > 0);
    if (problem !== undefined) problems.push(problem);
    values.set(name, [...earlier, ...splitValue(name, value)]);
  }
  const help = values.has("help");
  for (const name of positionalNames.slice(positionals.length)) problems.push(`${name}: is missing`);
  for (const value of positionals.slice(positionalNames.length))
    problems.push(`${value}: not expected here; see --help`);
  for (const name of LIST_OPTIONS) {
    if (values.get(name)?.some((value) => value.trim() === "")) problems.push(`--${name}: an entry is empty`);
  }
  const input: CommandInput = {
    positional: (name) => positionals[positionalNames.indexOf(name)] as string,
    option: (name) => values.get(name)?.[0],
    list: (name) => values.get(name)?.map((value) => value.trim()),
    now,
  };
  problems.push(...(validate?.(input) ?? []));
  if (problems.length > 0 && !help) throw new ConfigError(problems);
  return { input, json: values.has("json"), help };
}
