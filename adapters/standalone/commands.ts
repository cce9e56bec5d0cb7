/** The commands: accounts, and backups. They work on the database beside a server that runs on it: none starts a loop. */
import { ConfigError, createAccounts, ServiceError } from "../../lib/mod.ts";
import type { Storage } from "../../lib/storage/types.ts";
import { didYouMean } from "../../lib/validation.ts";
import { type Arguments, type Input, readArguments } from "./arguments.ts";
import { backupUsage, runBackup } from "./backup.ts";
import { COMMANDS } from "./command-options.ts";
import { describeError } from "./describe-error.ts";
import { withoutUndefined } from "./without-undefined.ts";

type Accounts = ReturnType<typeof createAccounts>;
type Row = Readonly<Record<string, unknown>>;

export interface CommandSurroundings {
  /** What new keys start with. Default `gr`. */
  readonly key_prefix?: string;
  /** Take one line each. Default: standard output and standard error. */
  readonly out?: (line: string) => void;
  readonly err?: (line: string) => void;
  readonly now?: () => number;
}

interface Answer {
  readonly rows: readonly Row[];
  readonly columns: readonly string[];
  /** Shown instead of the table, alone on standard output. */
  readonly secret?: string;
  /** What `--json` shows; default: the rows. */
  readonly json?: unknown;
}

interface Action extends Arguments {
  readonly about: string;
  run(accounts: Accounts, input: Input): Promise<Answer>;
}

const WORKSPACE = { workspace: "ID|NAME" };
const ORGANIZATION = { organization: "ID" };
const KEY_COLUMNS = ["short_key", "kind", "user_id", "description", "created_at", "expires_at", "revoked_at", "id"];
const WORKSPACE_COLUMNS = ["name", "id", "created_at"];
const PROJECT_COLUMNS = ["name", "id", "workspace_id", "created_at"];
const USER_COLUMNS = ["email", "name", "id", "created_at"];
const GRANT_COLUMNS = ["subject_id", "scope_id", "permissions"];
const AGENT_COLUMNS = ["name", "owner_user_id", "shared", "workspace_id", "project_id"];

const show = (columns: readonly string[], ...rows: readonly object[]): Answer => ({ columns, rows: rows as Row[] });

/** A key as it may be shown. */
function shown(key: object): Row {
  const { key_hash: _, ...rest } = key as Row;
  return rest;
}

const permissionsOf = (input: Input): readonly never[] | undefined => input.all("permission") as never[] | undefined;

const actions: Readonly<Record<string, Readonly<Record<string, Action>>>> = {
  keys: {
    create: {
      about: "makes an API key and shows it, once",
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
        const [at, within] = [input.one("expires-at"), input.one("expires-in")];
        const kind = input.one("kind") ?? "sk";
        return [
          ...(kind === "sk" || kind === "pt" ? [] : [`--kind: ${kind} is neither sk nor pt`]),
          ...(at !== undefined && within !== undefined ? ["--expires-in: not together with --expires-at"] : []),
          ...(at !== undefined && momentOf(at) === undefined
            ? [`--expires-at: ${at} is not a time such as 2030-01-31T12:00:00Z`]
            : []),
          ...(within !== undefined && durationOf(within) === undefined
            ? [`--expires-in: ${within} is not a time such as 30d, 12h or 45m`]
            : []),
        ];
      },
      async run(accounts, input) {
        const [at, within] = [input.one("expires-at"), input.one("expires-in")];
        const expires_at = within === undefined ? momentOf(at ?? "") : input.now + (durationOf(within) ?? 0);
        const { key, row } = await accounts.createKey(
          withoutUndefined({
            kind: (input.one("kind") ?? "sk") as "sk" | "pt",
            user: input.one("user"),
            workspaces: input.all("workspaces"),
            permissions: permissionsOf(input),
            expires_at,
            description: input.one("description"),
            organization_id: input.one("organization"),
          }),
        );
        return { ...show(KEY_COLUMNS, shown(row)), secret: key, json: { key, ...shown(row) } };
      },
    },
    list: {
      about: "shows all keys by their short forms",
      options: ORGANIZATION,
      run: async (accounts, input) =>
        show(KEY_COLUMNS, ...(await accounts.listKeys(input.one("organization"))).map(shown)),
    },
    revoke: {
      about: "ends a key, by its short form or id",
      positionals: ["KEY"],
      options: ORGANIZATION,
      run: async (accounts, input) =>
        show(KEY_COLUMNS, shown(await accounts.revokeKey(input.of("KEY"), input.one("organization")))),
    },
  },
  workspaces: {
    create: {
      about: "makes a workspace",
      positionals: ["NAME"],
      run: async (accounts, input) => show(WORKSPACE_COLUMNS, await accounts.createWorkspace(input.of("NAME"))),
    },
    list: {
      about: "shows all workspaces",
      run: async (accounts) => show(WORKSPACE_COLUMNS, ...(await accounts.listWorkspaces())),
    },
    rename: {
      about: "gives a workspace another name",
      positionals: ["WORKSPACE", "NAME"],
      run: async (accounts, input) =>
        show(WORKSPACE_COLUMNS, await accounts.renameWorkspace(input.of("WORKSPACE"), input.of("NAME"))),
    },
    delete: {
      about: "deletes a workspace and its projects; reports keep their names",
      positionals: ["WORKSPACE"],
      run: async (accounts, input) => show(WORKSPACE_COLUMNS, await accounts.deleteWorkspace(input.of("WORKSPACE"))),
    },
  },
  projects: {
    create: {
      about: "makes a project, in the oldest workspace unless one is named",
      positionals: ["NAME"],
      options: WORKSPACE,
      run: async (accounts, input) =>
        show(PROJECT_COLUMNS, await accounts.createProject(input.of("NAME"), input.one("workspace"))),
    },
    list: {
      about: "shows the projects of all workspaces, or of one",
      options: WORKSPACE,
      run: async (accounts, input) => show(PROJECT_COLUMNS, ...(await accounts.listProjects(input.one("workspace")))),
    },
    rename: {
      about: "gives a project another name",
      positionals: ["PROJECT", "NAME"],
      options: WORKSPACE,
      async run(accounts, input) {
        const row = await accounts.renameProject(input.of("PROJECT"), input.of("NAME"), input.one("workspace"));
        return show(PROJECT_COLUMNS, row);
      },
    },
    delete: {
      about: "deletes a project; reports keep its name",
      positionals: ["PROJECT"],
      options: WORKSPACE,
      run: async (accounts, input) =>
        show(PROJECT_COLUMNS, await accounts.deleteProject(input.of("PROJECT"), input.one("workspace"))),
    },
  },
  users: {
    create: {
      about:
        "makes a user who is a member of the organization, with organization:read unless --permission says otherwise",
      positionals: ["EMAIL"],
      options: { name: "TEXT", permission: "NAME,..." },
      async run(accounts, input) {
        const user = { email: input.of("EMAIL"), name: input.one("name"), permissions: permissionsOf(input) };
        return show(USER_COLUMNS, await accounts.createUser(withoutUndefined(user)));
      },
    },
    list: {
      about: "shows all users of the organization",
      run: async (accounts) => show(USER_COLUMNS, ...(await accounts.listUsers())),
    },
    delete: {
      about: "deletes a user, and ends the personal tokens",
      positionals: ["USER"],
      run: async (accounts, input) => show(USER_COLUMNS, await accounts.deleteUser(input.of("USER"))),
    },
    grant: {
      about: "says what a user may do on the organization or in a workspace, instead of before; `none`: nothing",
      positionals: ["USER"],
      options: { permission: "NAME,...|none", ...WORKSPACE },
      validate: (input) => (input.all("permission") ? [] : ["--permission: is needed"]),
      async run(accounts, input) {
        const names = permissionsOf(input) ?? [];
        const permissions = names.length === 1 && names[0] === "none" ? [] : names;
        const grant = { user: input.of("USER"), permissions, workspace: input.one("workspace") };
        return show(GRANT_COLUMNS, await accounts.grant(withoutUndefined(grant)));
      },
    },
  },
  agents: {
    list: {
      about: "shows all agents and whose they are",
      run: async (accounts) => show(AGENT_COLUMNS, ...(await accounts.listAgents())),
    },
    share: {
      about: "lets the members of its workspace see an agent",
      positionals: ["NAME"],
      run: async (accounts, input) => show(AGENT_COLUMNS, await accounts.shareAgent(input.of("NAME"))),
    },
    unshare: {
      about: "hides an agent from all but its owner",
      positionals: ["NAME"],
      run: async (accounts, input) => show(AGENT_COLUMNS, await accounts.unshareAgent(input.of("NAME"))),
    },
    transfer: {
      about: "makes another user the owner of an agent",
      positionals: ["NAME", "USER"],
      run: async (accounts, input) =>
        show(AGENT_COLUMNS, await accounts.transferAgent(input.of("NAME"), input.of("USER"))),
    },
  },
};

/**
 * Runs `greenroom keys create` and the like on the storage that `open` gives, and closes it. Gives the exit code: 1 when anything
 * was wrong; then nothing was written, and the message says what. `--config` and `--database` are for whoever opens it.
 */
export async function runCommand(
  args: readonly string[],
  open: () => Promise<Storage>,
  surroundings: CommandSurroundings = {},
): Promise<number> {
  const { out = console.log, err = console.error, now = Date.now, key_prefix } = surroundings;
  const [word = "", name = ""] = args;
  // It copies the file below the storage.
  if (word === "backup") return await runBackup(args.slice(1), { out, err });
  const noun = findActions(word);
  const action = noun && Object.hasOwn(noun, name) ? noun[name] : undefined;
  if (noun && /^(?:--help|-h)$/.test(name)) {
    out(usageOf(word));
    return 0;
  }
  if (!action) {
    err(`greenroom: ${describeUnknownCommand(word, name)}`);
    err(usageOf(word));
    return 1;
  }
  try {
    const { input, json, help } = readArguments(args.slice(2), action, now());
    if (help) {
      out(lineOf(word, name, action));
      return 0;
    }
    const answer = await withAccounts({ open, now, key_prefix }, (accounts) => action.run(accounts, input));
    if (json) out(JSON.stringify(answer.json ?? (name === "list" ? answer.rows : answer.rows[0]), null, 2));
    else printAnswer(answer, out, err);
    return 0;
  } catch (error) {
    err(`greenroom: ${describeError(error, [ConfigError, ServiceError])}`);
    return 1;
  }
}

function printAnswer(answer: Answer, out: (line: string) => void, err: (line: string) => void): void {
  if (answer.secret) {
    out(answer.secret);
    err("This key is not stored: it cannot be shown again.");
  } else for (const line of table(answer)) out(line);
}

/** Returns the actions of a noun such as `keys`. */
const findActions = (word: string): Readonly<Record<string, Action>> | undefined =>
  Object.hasOwn(actions, word) ? actions[word] : undefined;

function describeUnknownCommand(word: string, name: string): string {
  const noun = findActions(word);
  if (!noun) return `no command ${word}${didYouMean(word, COMMANDS, "; see --help")}`;
  if (!name) return `${word}: say what to do`;
  return `${word}: no command ${name}${didYouMean(name, Object.keys(noun), "; see --help")}`;
}

interface AccountsPlace {
  readonly open: () => Promise<Storage>;
  readonly now: () => number;
  readonly key_prefix: string | undefined;
}

/** Opens the database, calls `use` with its accounts, and closes the database. */
async function withAccounts<T>(
  { open, now, key_prefix }: AccountsPlace,
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

/** How the commands of one word are called, or all. */
export function usageOf(word?: string): string {
  if (word === "backup") return backupUsage;
  const words = word !== undefined && Object.hasOwn(actions, word) ? [word] : Object.keys(actions);
  const lines = words.flatMap((noun) =>
    Object.entries(actions[noun] ?? {}).map(([name, action]) => lineOf(noun, name, action)),
  );
  return [...lines, "", "Each also takes --json, --config FILE, --database URL and --help."].join("\n");
}

function lineOf(word: string, name: string, { about, positionals = [], options = {} }: Action): string {
  const flags = Object.entries(options).map(([option, value]) => `[--${option} ${value}]`);
  return `greenroom ${[word, name, ...positionals, ...flags].join(" ")}\n    ${about}`;
}

/** RFC 3339; without an offset UTC, a date alone midnight. Undefined for anything else. */
function momentOf(text: string): number | undefined {
  const parts = /^(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?)([Zz]|[+-]\d\d:\d\d)?)?$/.exec(text);
  if (!parts) return undefined;
  const [, year, month, day, time = "00:00", offset = "Z"] = parts;
  // Some runtimes take 30 February for a day in March.
  if (new Date(Date.UTC(Number(year), Number(month) - 1, Number(day))).getUTCDate() !== Number(day)) return undefined;
  const moment = Date.parse(`${year}-${month}-${day}T${time}${offset.toUpperCase()}`);
  return Number.isNaN(moment) ? undefined : moment;
}

const UNITS: Readonly<Record<string, number>> = { d: 86_400_000, h: 3_600_000, m: 60_000 };

function durationOf(text: string): number | undefined {
  const parts = /^(\d{1,6})([dhm])$/.exec(text);
  const ms = Number(parts?.[1]) * (UNITS[parts?.[2] ?? ""] ?? Number.NaN);
  return ms > 0 ? ms : undefined;
}

/** A header and a line for each row, in columns. */
function table({ rows, columns }: Answer): string[] {
  const lines = [
    columns.map((name) => name.toUpperCase()),
    ...rows.map((row) => columns.map((name) => cell(name, row[name]))),
  ];
  const widths = columns.map((_, i) => Math.max(...lines.map((line) => line[i]?.length ?? 0)));
  return lines.map((line) =>
    line
      .map((text, i) => text.padEnd(widths[i] ?? 0))
      .join("  ")
      .trimEnd(),
  );
}

function cell(name: string, value: unknown): string {
  if (value === null || value === undefined) return "-";
  if (name.endsWith("_at")) return new Date(value as number).toISOString();
  const text = Array.isArray(value) ? value.join(",") : String(value);
  // A name could move the cursor otherwise.
  return text.replace(/\p{Cc}/gu, "?");
}
