/** The commands: accounts, and backups. They work on the database beside a server that runs on it: none starts a loop. */
import { ConfigError, createAccounts, ServiceError } from "../../lib/mod.ts";
import type { Storage } from "../../lib/storage/types.ts";
import { suggestName } from "../../lib/validation.ts";
import { type CommandArguments, type CommandInput, readArguments } from "./arguments.ts";
import { backupUsage, runBackup } from "./backup.ts";
import { COMMANDS } from "./command-options.ts";
import { describeError } from "./describe-error.ts";
import { omitUndefined } from "./omit-undefined.ts";

type Accounts = ReturnType<typeof createAccounts>;
type Row = Readonly<Record<string, unknown>>;

export interface CommandIo {
  /** The prefix of new keys. Default `gr`. */
  readonly key_prefix?: string;
  /** Take one line each. Default: standard output and standard error. */
  readonly out?: (line: string) => void;
  readonly err?: (line: string) => void;
  readonly now?: () => number;
}

interface CommandOutput {
  readonly rows: readonly Row[];
  readonly columns: readonly string[];
  /** Shown instead of the table, alone on standard output. */
  readonly secret?: string;
  /** The value that `--json` prints. Default: the rows. */
  readonly json?: unknown;
}

interface Action extends CommandArguments {
  readonly summary: string;
  /** Executes the command on the accounts, and resolves with what it prints. Rejects if it fails: with a ServiceError for the user. */
  run(accounts: Accounts, input: CommandInput): Promise<CommandOutput>;
}

const WORKSPACE = { workspace: "ID|NAME" };
const ORGANIZATION = { organization: "ID" };
const KEY_COLUMNS = ["short_key", "kind", "user_id", "description", "created_at", "expires_at", "revoked_at", "id"];
const WORKSPACE_COLUMNS = ["name", "id", "created_at"];
const PROJECT_COLUMNS = ["name", "id", "workspace_id", "created_at"];
const USER_COLUMNS = ["email", "name", "id", "created_at"];
const GRANT_COLUMNS = ["subject_id", "scope_id", "permissions"];
const AGENT_COLUMNS = ["name", "owner_user_id", "shared", "workspace_id", "project_id"];

const toOutput = (columns: readonly string[], ...rows: readonly object[]): CommandOutput => ({
  columns,
  rows: rows as Row[],
});

function omitKeyHash(key: object): Row {
  const { key_hash: _, ...rest } = key as Row;
  return rest;
}

const readPermissions = (input: CommandInput): readonly never[] | undefined =>
  input.list("permission") as never[] | undefined;

const actions: Readonly<Record<string, Readonly<Record<string, Action>>>> = {
  keys: {
    create: {
      summary: "create an API key and print it once",
      options: {
        kind: "sk|pt",
        user: "ID|EMAIL",
        workspaces: "ID|NAME,...",
        permission: "NAME,...",
        "expires-at": "TIME",
        "expires-in": "30d|12h|45m",
        description: "TEXT",
        ...ORGANIZATION,
      },
      validate(input) {
        const [at, within] = [input.option("expires-at"), input.option("expires-in")];
        const kind = input.option("kind") ?? "sk";
        return [
          ...(kind === "sk" || kind === "pt" ? [] : [`--kind: ${kind} is neither sk nor pt`]),
          ...(at !== undefined && within !== undefined ? ["--expires-in: cannot be combined with --expires-at"] : []),
          ...(at !== undefined && parseTime(at) === undefined
            ? [`--expires-at: ${at} is not a time such as 2030-01-31T12:00:00Z`]
            : []),
          ...(within !== undefined && parseDuration(within) === undefined
            ? [`--expires-in: ${within} is not a time such as 30d, 12h or 45m`]
            : []),
        ];
      },
      async run(accounts, input) {
        const [at, within] = [input.option("expires-at"), input.option("expires-in")];
        const expires_at = within === undefined ? parseTime(at ?? "") : input.now + (parseDuration(within) ?? 0);
        const { key, row } = await accounts.createKey(
          omitUndefined({
            kind: (input.option("kind") ?? "sk") as "sk" | "pt",
            user: input.option("user"),
            workspaces: input.list("workspaces"),
            permissions: readPermissions(input),
            expires_at,
            description: input.option("description"),
            organization_id: input.option("organization"),
          }),
        );
        return { ...toOutput(KEY_COLUMNS, omitKeyHash(row)), secret: key, json: { key, ...omitKeyHash(row) } };
      },
    },
    list: {
      summary: "list all keys by their short forms",
      options: ORGANIZATION,
      run: async (accounts, input) =>
        toOutput(KEY_COLUMNS, ...(await accounts.listKeys(input.option("organization"))).map(omitKeyHash)),
    },
    revoke: {
      summary: "revoke a key by its short form or id",
      positionals: ["KEY"],
      options: ORGANIZATION,
      run: async (accounts, input) =>
        toOutput(
          KEY_COLUMNS,
          omitKeyHash(await accounts.revokeKey(input.positional("KEY"), input.option("organization"))),
        ),
    },
  },
  workspaces: {
    create: {
      summary: "create a workspace",
      positionals: ["NAME"],
      run: async (accounts, input) =>
        toOutput(WORKSPACE_COLUMNS, await accounts.createWorkspace(input.positional("NAME"))),
    },
    list: {
      summary: "list all workspaces",
      run: async (accounts) => toOutput(WORKSPACE_COLUMNS, ...(await accounts.listWorkspaces())),
    },
    rename: {
      summary: "rename a workspace",
      positionals: ["WORKSPACE", "NAME"],
      run: async (accounts, input) =>
        toOutput(
          WORKSPACE_COLUMNS,
          await accounts.renameWorkspace(input.positional("WORKSPACE"), input.positional("NAME")),
        ),
    },
    delete: {
      summary: "delete a workspace and its projects; reports keep their names",
      positionals: ["WORKSPACE"],
      run: async (accounts, input) =>
        toOutput(WORKSPACE_COLUMNS, await accounts.deleteWorkspace(input.positional("WORKSPACE"))),
    },
  },
  projects: {
    create: {
      summary: "create a project; default workspace: the oldest",
      positionals: ["NAME"],
      options: WORKSPACE,
      run: async (accounts, input) =>
        toOutput(PROJECT_COLUMNS, await accounts.createProject(input.positional("NAME"), input.option("workspace"))),
    },
    list: {
      summary: "list the projects of all workspaces, or of one",
      options: WORKSPACE,
      run: async (accounts, input) =>
        toOutput(PROJECT_COLUMNS, ...(await accounts.listProjects(input.option("workspace")))),
    },
    rename: {
      summary: "rename a project",
      positionals: ["PROJECT", "NAME"],
      options: WORKSPACE,
      async run(accounts, input) {
        const row = await accounts.renameProject(
          input.positional("PROJECT"),
          input.positional("NAME"),
          input.option("workspace"),
        );
        return toOutput(PROJECT_COLUMNS, row);
      },
    },
    delete: {
      summary: "delete a project; reports keep its name",
      positionals: ["PROJECT"],
      options: WORKSPACE,
      run: async (accounts, input) =>
        toOutput(PROJECT_COLUMNS, await accounts.deleteProject(input.positional("PROJECT"), input.option("workspace"))),
    },
  },
  users: {
    create: {
      summary: "create a user who is a member of the organization; default permission: organization:read",
      positionals: ["EMAIL"],
      options: { name: "TEXT", permission: "NAME,..." },
      async run(accounts, input) {
        const user = {
          email: input.positional("EMAIL"),
          name: input.option("name"),
          permissions: readPermissions(input),
        };
        return toOutput(USER_COLUMNS, await accounts.createUser(omitUndefined(user)));
      },
    },
    list: {
      summary: "list all users of the organization",
      run: async (accounts) => toOutput(USER_COLUMNS, ...(await accounts.listUsers())),
    },
    delete: {
      summary: "delete a user and revoke the personal tokens of the user",
      positionals: ["USER"],
      run: async (accounts, input) => toOutput(USER_COLUMNS, await accounts.deleteUser(input.positional("USER"))),
    },
    grant: {
      summary: "replace the permissions of a user on the organization or in a workspace; `none` removes all",
      positionals: ["USER"],
      options: { permission: "NAME,...|none", ...WORKSPACE },
      validate: (input) => (input.list("permission") ? [] : ["--permission: required"]),
      async run(accounts, input) {
        const names = readPermissions(input) ?? [];
        const permissions = names.length === 1 && names[0] === "none" ? [] : names;
        const grant = { user: input.positional("USER"), permissions, workspace: input.option("workspace") };
        return toOutput(GRANT_COLUMNS, await accounts.grant(omitUndefined(grant)));
      },
    },
  },
  agents: {
    list: {
      summary: "list all agents with their owners",
      run: async (accounts) => toOutput(AGENT_COLUMNS, ...(await accounts.listAgents())),
    },
    share: {
      summary: "make an agent visible to the members of its workspace",
      positionals: ["NAME"],
      run: async (accounts, input) => toOutput(AGENT_COLUMNS, await accounts.shareAgent(input.positional("NAME"))),
    },
    unshare: {
      summary: "make an agent visible only to its owner",
      positionals: ["NAME"],
      run: async (accounts, input) => toOutput(AGENT_COLUMNS, await accounts.unshareAgent(input.positional("NAME"))),
    },
    transfer: {
      summary: "transfer an agent to another owner",
      positionals: ["NAME", "USER"],
      run: async (accounts, input) =>
        toOutput(AGENT_COLUMNS, await accounts.transferAgent(input.positional("NAME"), input.positional("USER"))),
    },
  },
};

/**
 * Runs an account command such as `greenroom keys create` on the storage that `open` gives, prints its result as a
 * table or JSON, and closes the storage. Resolves with the exit code: 1 if anything was wrong, with a message. Prints a
 * usage for `--help` and unknown commands. Ignores `--config` and `--database`.
 */
export async function runCommand(
  args: readonly string[],
  open: () => Promise<Storage>,
  io: CommandIo = {},
): Promise<number> {
  const { out = console.log, err = console.error, now = Date.now, key_prefix } = io;
  const [group = "", name = ""] = args;
  // It copies the file below the storage.
  if (group === "backup") return await runBackup(args.slice(1), { out, err });
  const groupActions = findActions(group);
  const action = groupActions && Object.hasOwn(groupActions, name) ? groupActions[name] : undefined;
  if (groupActions && /^(?:--help|-h)$/.test(name)) {
    out(formatUsage(group));
    return 0;
  }
  if (!action) {
    err(`greenroom: ${describeUnknownCommand(group, name)}`);
    err(formatUsage(group));
    return 1;
  }
  try {
    const { input, json, help } = readArguments(args.slice(2), action, now());
    if (help) {
      out(formatCommandUsage(group, name, action));
      return 0;
    }
    const output = await withAccounts({ open, now, key_prefix }, (accounts) => action.run(accounts, input));
    if (json) out(JSON.stringify(output.json ?? (name === "list" ? output.rows : output.rows[0]), null, 2));
    else printAnswer(output, out, err);
    return 0;
  } catch (error) {
    err(`greenroom: ${describeError(error, [ConfigError, ServiceError])}`);
    return 1;
  }
}

/**
 * Prints the rows as a table. For a new key, prints only the key, and to `err` a warning that it is not shown again.
 */
function printAnswer(output: CommandOutput, out: (line: string) => void, err: (line: string) => void): void {
  if (output.secret) {
    out(output.secret);
    err("Save this key now. It is not stored and cannot be shown again.");
  } else for (const line of formatTable(output)) out(line);
}

/** Returns the actions of a first word such as `keys`. */
const findActions = (group: string): Readonly<Record<string, Action>> | undefined =>
  Object.hasOwn(actions, group) ? actions[group] : undefined;

/**
 * Returns what is wrong with a command that does not exist: the group is unknown, its subcommand is missing, or its subcommand is
 * unknown. For an unknown name the text ends with a similar one, or with a hint at `--help` if there is none.
 */
function describeUnknownCommand(group: string, name: string): string {
  const groupActions = findActions(group);
  if (!groupActions) return `no command ${group}${suggestName(group, COMMANDS, "; see --help")}`;
  if (!name) return `${group}: a subcommand is required`;
  return `${group}: no command ${name}${suggestName(name, Object.keys(groupActions), "; see --help")}`;
}

interface AccountsContext {
  readonly open: () => Promise<Storage>;
  readonly now: () => number;
  readonly key_prefix: string | undefined;
}

/**
 * Opens the database and brings its schema up to date, calls `use` with its accounts, and closes it, also if `use`
 * rejects. Resolves with what `use` returns.
 */
async function withAccounts<T>(
  { open, now, key_prefix }: AccountsContext,
  use: (accounts: Accounts) => Promise<T>,
): Promise<T> {
  const storage = await open();
  try {
    await storage.migrate();
    const environment = { now, uuid: () => crypto.randomUUID() };
    const prefix = key_prefix === undefined ? {} : { key_prefix };
    return await use(createAccounts({ identity: storage.identity, environment, ...prefix }));
  } finally {
    await storage.close();
  }
}

/** Formats the usage of the commands of one group; of all groups without one or for an unknown one. */
export function formatUsage(group?: string): string {
  if (group === "backup") return backupUsage;
  const groups = group !== undefined && Object.hasOwn(actions, group) ? [group] : Object.keys(actions);
  const lines = groups.flatMap((group) =>
    Object.entries(actions[group] ?? {}).map(([name, action]) => formatCommandUsage(group, name, action)),
  );
  return [...lines, "", "All commands also accept --json, --config FILE, --database URL and --help."].join("\n");
}

/** Returns the usage of a command with its positionals and options, and below it its summary. */
function formatCommandUsage(group: string, name: string, { summary, positionals = [], options = {} }: Action): string {
  const flags = Object.entries(options).map(([option, value]) => `[--${option} ${value}]`);
  return `greenroom ${[group, name, ...positionals, ...flags].join(" ")}\n    ${summary}`;
}

/**
 * Returns the milliseconds of an RFC 3339 time. Without an offset it is UTC, without a time midnight. Undefined for
 * anything else, also a day that does not exist.
 */
function parseTime(text: string): number | undefined {
  const parts = /^(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?)([Zz]|[+-]\d\d:\d\d)?)?$/.exec(text);
  if (!parts) return undefined;
  const [, year, month, day, time = "00:00", offset = "Z"] = parts;
  // Some runtimes take 30 February for a day in March.
  if (new Date(Date.UTC(Number(year), Number(month) - 1, Number(day))).getUTCDate() !== Number(day)) return undefined;
  const timestamp = Date.parse(`${year}-${month}-${day}T${time}${offset.toUpperCase()}`);
  return Number.isNaN(timestamp) ? undefined : timestamp;
}

const UNIT_MS: Readonly<Record<string, number>> = { d: 86_400_000, h: 3_600_000, m: 60_000 };

/**
 * Returns the milliseconds of a whole number of one to six digits with the unit `d`, `h` or `m` (minutes), such as `30d`.
 * Returns undefined for another text and for zero.
 */
function parseDuration(text: string): number | undefined {
  const parts = /^(\d{1,6})([dhm])$/.exec(text);
  const ms = Number(parts?.[1]) * (UNIT_MS[parts?.[2] ?? ""] ?? Number.NaN);
  return ms > 0 ? ms : undefined;
}

/**
 * Returns a header with the names of the columns in capitals and a line for each row. Columns are padded and separated
 * by two spaces.
 */
function formatTable({ rows, columns }: CommandOutput): string[] {
  const lines = [
    columns.map((name) => name.toUpperCase()),
    ...rows.map((row) => columns.map((name) => formatCell(name, row[name]))),
  ];
  const widths = columns.map((_, i) => Math.max(...lines.map((line) => line[i]?.length ?? 0)));
  return lines.map((line) =>
    line
      .map((text, i) => text.padEnd(widths[i] ?? 0))
      .join("  ")
      .trimEnd(),
  );
}

/**
 * Returns the text of a cell: a dash for none, an ISO time in a column that ends in `_at`, a list separated by commas.
 * Control characters become `?`.
 */
function formatCell(name: string, value: unknown): string {
  if (value === null || value === undefined) return "-";
  if (name.endsWith("_at")) return new Date(value as number).toISOString();
  const text = Array.isArray(value) ? value.join(",") : String(value);
  // A name could move the cursor otherwise.
  return text.replace(/\p{Cc}/gu, "?");
}
