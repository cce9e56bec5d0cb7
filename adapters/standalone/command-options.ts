/** Options of the command line: flags and `GREENROOM_*` variables. */
import { basename } from "node:path";
import { ConfigError } from "../../lib/mod.ts";
import { suggestName } from "../../lib/validation.ts";
import { findUrlProblem, isLibsql, isPostgres } from "../database.ts";
import { describeUnknownOption, parseTokens } from "./arguments.ts";
import { findConfigFile, isConfigModule, isRecord, OWN_CONFIG_FILES, readContent } from "./config.ts";
import { LOG_FORMATS, LOG_LEVELS, type LogFormat, type LogLevel } from "./log.ts";
import { omitUndefined } from "./omit-undefined.ts";

/** First words of a command line that `runCommand` takes. */
export const COMMANDS: ReadonlySet<string> = new Set(["keys", "workspaces", "projects", "users", "agents", "backup"]);

/** A value, and the flag or variable that errors about it name. */
export interface OptionValue {
  readonly value: string;
  readonly setting: string;
}

/** Options of the command, as flags or `GREENROOM_*`. Flags win; an empty variable counts as unset. */
export interface CommandOptions {
  readonly help: boolean;
  readonly version: boolean;
  readonly config?: string;
  readonly host: OptionValue;
  /** Only this machine reaches the host. */
  readonly loopback: boolean;
  /** The base of the URLs that the server gives to others. Default: the address on which it listens. */
  readonly public_base_url?: OptionValue;
  /** Undefined: 2024, or the next free one. */
  readonly port?: number;
  readonly database: OptionValue;
  readonly workers?: number;
  /** The time that runs may continue after SIGTERM. */
  readonly grace_ms: number;
  readonly log_level: LogLevel;
  /** Undefined: text at a terminal, else JSON. */
  readonly log_format?: LogFormat;
  /** LangSmith's hosted Studio may call. */
  readonly studio: boolean;
  /** `greenroom dev`. */
  readonly dev: boolean;
  /** Opens the page in a browser. */
  readonly open: boolean;
  /** A command of `greenroom dev` that is started beside the server. */
  readonly run?: string;
}

export const usage = `greenroom: serve agents behind the assistants, threads and runs API

  --config FILE    greenroom.json, greenroom.config.ts or langgraph.json; default: the one in this folder
  --host HOST      default 127.0.0.1; other than loopback addresses need API keys
  --port PORT      default 2024, or the next free one; 0 for any free one
  --database URL   a SQLite file, :memory:, or libSQL: file:PATH, libsql://HOST, https://HOST and so on, with the token in
                   GREENROOM_DATABASE_TOKEN; or postgres://USER:PASSWORD@HOST/NAME, where a pooler is in front with
                   GREENROOM_DATABASE_DIRECT_URL, the URL without it; default .greenroom/greenroom.db
  --public-base-url URL
                   base of feedback links; default: the address of the server
  --workers N      maximum number of concurrent runs; default 10
  --grace-ms N     time for active runs to end after SIGTERM or SIGINT, in milliseconds; then they are requeued. Default
                   10000. A second signal stops the server at once
  --log-level LEVEL
                   debug, info, warn or error; default info, which logs requests and ended runs
  --log-format FORMAT
                   text or json; default text at a terminal, else json
  --studio         allow LangSmith's hosted Studio, https://smith.langchain.com, to call this server; API keys stay required
  -h, --help
  -v, --version

Each option is also an environment variable: GREENROOM_CONFIG, GREENROOM_HOST, GREENROOM_PORT, GREENROOM_DATABASE,
GREENROOM_PUBLIC_BASE_URL, GREENROOM_WORKERS, GREENROOM_GRACE_MS, GREENROOM_LOG_LEVEL, GREENROOM_LOG_FORMAT, GREENROOM_STUDIO (1).
GREENROOM_API_KEYS is a comma-separated list of your own keys of at least 32 characters; GREENROOM_USAGE_ENABLED is 0 or 1.

Development: greenroom init|dev|openapi --help
Accounts: greenroom keys|workspaces|projects|users|agents --help
Backups: greenroom backup --help
greenroom help [COMMAND] and greenroom version print the same as --help and --version.
`;

/** Flags that take a value. Each is a variable as well. */
const VALUE_FLAGS = [
  "config",
  "host",
  "port",
  "database",
  "public-base-url",
  "workers",
  "grace-ms",
  "log-level",
  "log-format",
] as const;

/** A SQLite file. */
const DEFAULT_DATABASE: OptionValue = { value: ".greenroom/greenroom.db", setting: "--database" };

/** Returns the database that the configuration names, unless a flag or variable names one. */
export const chooseDatabase = (option: OptionValue, configured: string | undefined): OptionValue =>
  option === DEFAULT_DATABASE && configured !== undefined ? { value: configured, setting: "database" } : option;

type EnvVars = Readonly<Record<string, string | undefined>>;

/**
 * Returns the value of an option with the name of its source: the flag, else its `GREENROOM_…` variable. Undefined if
 * neither is set; an empty variable counts as not set.
 */
function readOption(name: string, flag: string | undefined, env: EnvVars): OptionValue | undefined {
  if (flag !== undefined) return { value: flag, setting: `--${name}` };
  const setting = `GREENROOM_${name.toUpperCase().replaceAll("-", "_")}`;
  const value = env[setting];
  return value ? { value, setting } : undefined;
}

/**
 * Returns the options of the server from flags, else `GREENROOM_…` variables, else defaults. Throws a ConfigError with
 * every problem, each naming its option or variable, unless help or the version is requested. `commands` are the words
 * that an unknown first word may mean.
 */
export function readCommand(
  args: readonly string[],
  env: EnvVars,
  { commands = [], dev = false }: { readonly commands?: Iterable<string>; readonly dev?: boolean } = {},
): CommandOptions {
  const { flags, problems } = readFlags(args, commands, dev);
  const settings = new Settings(flags, env, problems);
  const host = settings.get("host") ?? { value: "127.0.0.1", setting: "--host" };
  const database = settings.get("database") ?? DEFAULT_DATABASE;
  const databaseProblem = findUrlProblem(database.value);
  if (databaseProblem !== undefined) problems.push(`${database.setting}: ${databaseProblem}`);
  const studio = env.GREENROOM_STUDIO;
  if (studio && studio !== "0" && studio !== "1") problems.push(`GREENROOM_STUDIO: ${studio} is neither 0 nor 1`);
  const options: CommandOptions = {
    help: flags.has("help"),
    version: flags.has("version"),
    host: { ...host, value: host.value.replace(/^\[(.*)\]$/, "$1") },
    loopback: /^(?:localhost|127(?:\.\d{1,3}){3}|\[?::1\]?)$/i.test(host.value),
    database,
    grace_ms: settings.getWholeNumber("grace-ms", 86_400_000) ?? 10_000,
    log_level: settings.getChoice("log-level", LOG_LEVELS) ?? "info",
    studio: flags.has("studio") || studio === "1",
    dev,
    open: !flags.has("no-open"),
    ...omitUndefined({
      log_format: settings.getChoice("log-format", LOG_FORMATS),
      run: flags.get("run"),
      config: settings.get("config")?.value,
      public_base_url: settings.get("public-base-url"),
      port: settings.getWholeNumber("port", 65_535),
      workers: settings.getWholeNumber("workers", 1_000),
    }),
  };
  if (problems.length > 0 && !options.help && !options.version) throw new ConfigError(problems);
  return options;
}

interface Flags {
  /** Texts by names. That of a switch is `""`. */
  readonly flags: ReadonlyMap<string, string>;
  readonly problems: string[];
}

/** Reads the flags of a command line. `commands`: words that may be meant by a first word that is no flag. */
// biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one branch for each kind of word
function readFlags(args: readonly string[], commands: Iterable<string>, dev: boolean): Flags {
  const valueFlags: readonly string[] = dev ? [...VALUE_FLAGS, "run"] : VALUE_FLAGS;
  const switches = ["help", "version", "studio", ...(dev ? ["no-open"] : [])];
  const problems: string[] = [];
  const flags = new Map<string, string>();
  const tokens = parseTokens(args, valueFlags);
  const isUnknown = (name: string): boolean => !switches.includes(name) && !valueFlags.includes(name);
  for (const { name, rawName, value } of tokens) {
    if (name === undefined) continue;
    if (isUnknown(name)) problems.push(describeUnknownOption(rawName, [...valueFlags, ...switches]));
    else if (switches.includes(name)) flags.set(name, "");
    else if (value) flags.set(name, value);
    else problems.push(`${rawName}: needs a value`);
  }
  // What follows an unknown option was meant as its value.
  const valuePositions = tokens.flatMap(({ name, index }) =>
    name !== undefined && isUnknown(name) ? [index + 1] : [],
  );
  for (const { name, index, rawName } of tokens) {
    if (name !== undefined || valuePositions.includes(index)) continue;
    const hint = index === 0 ? `no such command${suggestName(rawName, commands, "; see --help")}` : "";
    problems.push(`${rawName}: ${hint || "not an option; see --help"}`);
  }
  return { flags, problems };
}

/** Options that are flags or variables. What is wrong with a value is added to the problems. */
class Settings {
  readonly #flags: ReadonlyMap<string, string>;
  readonly #env: EnvVars;
  readonly #problems: string[];

  constructor(flags: ReadonlyMap<string, string>, env: EnvVars, problems: string[]) {
    this.#flags = flags;
    this.#env = env;
    this.#problems = problems;
  }

  get(name: (typeof VALUE_FLAGS)[number]): OptionValue | undefined {
    return readOption(name, this.#flags.get(name), this.#env);
  }

  /** Returns the number; undefined if it is not set, or if it is invalid, which is noted as a problem. */
  getWholeNumber(name: "port" | "workers" | "grace-ms", max: number): number | undefined {
    const option = this.get(name);
    if (!option) return undefined;
    if (/^\d{1,10}$/.test(option.value) && Number(option.value) <= max) return Number(option.value);
    this.#problems.push(`${option.setting}: ${option.value} is not a whole number from 0 to ${max}`);
    return undefined;
  }

  /** Returns the chosen value; undefined if it is not set, or if it is invalid, which is noted as a problem. */
  getChoice<Value extends string>(name: "log-level" | "log-format", values: readonly Value[]): Value | undefined {
    const option = this.get(name);
    const value = values.find((choice) => choice === option?.value);
    if (option && value === undefined) {
      this.#problems.push(`${option.setting}: ${option.value} is none of ${values.join(", ")}`);
    }
    return value;
  }
}

/**
 * Reads the database of an account command from its option, its variable, a configuration in code or the default, in
 * this order, and the prefix of keys from the configuration. Imports a configuration in code. Rejects with a
 * ConfigError if the configuration is invalid; unknown options are ignored.
 */
export async function readDatabaseOptions(
  args: readonly string[],
  env: EnvVars,
): Promise<{ readonly database: OptionValue; readonly key_prefix?: string }> {
  const values = new Map(parseTokens(args, ["config", "database"]).map(({ name, value }) => [name, value]));
  const toNonEmptyText = (value: unknown): string | undefined =>
    typeof value === "string" && value !== "" ? value : undefined;
  const database = readOption("database", toNonEmptyText(values.get("database")), env) ?? DEFAULT_DATABASE;
  const path = readOption("config", toNonEmptyText(values.get("config")), env)?.value;
  const file = findConfigFile(path, OWN_CONFIG_FILES);
  if (file === undefined) return { database };
  const { auth, database: configured } = isConfigModule(file)
    ? await readModuleOptions(file)
    : { auth: readContent(file).auth, database: undefined };
  const key_prefix = isRecord(auth) ? toNonEmptyText(auth.key_prefix) : undefined;
  return {
    database: chooseDatabase(database, configured),
    ...(key_prefix === undefined ? {} : { key_prefix }),
  };
}

/**
 * Imports a configuration in code, and resolves with its `auth` and its database, without a check of `auth`. Rejects
 * with a ConfigError for any problem of its keys.
 */
async function readModuleOptions(
  file: string,
): Promise<{ readonly auth: unknown; readonly database: string | undefined }> {
  const { code, problems, service } = await (await import("./config-module.ts")).readConfigModule(file);
  if (problems.length > 0) throw new ConfigError(problems.map((problem) => `${basename(file)}: ${problem}`));
  return { auth: service.auth, database: code?.database };
}

/**
 * Returns a database as the log may name it: a Postgres URL without user, password and query, a libSQL URL without the
 * query, which may hold a token; every other one as it is.
 */
export function redactDatabaseUrl(database: string): string {
  if (isPostgres(database)) {
    const { host, pathname } = new URL(database);
    return `postgres://${host}${pathname}`;
  }
  return isLibsql(database) ? database.replace(/\?.*$/s, "") : database;
}
