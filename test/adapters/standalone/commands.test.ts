import assert from "node:assert/strict";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import { COMMANDS } from "../../../adapters/standalone/command-options.ts";
import { formatUsage, runCommand } from "../../../adapters/standalone/commands.ts";
import { hashKey, hasValidChecksum } from "../../../lib/auth/keys.ts";
import type { ApiKeyRow } from "../../../lib/storage/identity.ts";
import type { Storage } from "../../../lib/storage/mod.ts";

const NOW = Date.UTC(2026, 0, 1);

interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** A database file, and the commands on it. */
class Desk {
  readonly folder: string = mkdtempSync(join(tmpdir(), "greenroom-"));
  readonly path: string = join(this.folder, "agents.db");
  opened = 0;

  async run(...args: readonly string[]): Promise<Ran> {
    const out: string[] = [];
    const err: string[] = [];
    const open = async (): Promise<Storage> => {
      this.opened++;
      return nodeSqlite(this.path);
    };
    const lines = { out: (line: string) => void out.push(line), err: (line: string) => void err.push(line) };
    const code = await runCommand(args, open, { ...lines, now: () => NOW });
    return { code, out: out.join("\n"), err: err.join("\n") };
  }

  /** Runs a command that must succeed, and returns its JSON output. */
  async json<Value>(...args: readonly string[]): Promise<Value> {
    const { code, out, err } = await this.run(...args, "--json");
    assert.equal(code, 0, `${args.join(" ")}: ${err}`);
    return JSON.parse(out) as Value;
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true });
  }
}

type Named = { readonly id: string; readonly name: string };

describe("greenroom commands", () => {
  it("create a key that is shown once, list it and revoke it", async () => {
    using desk = new Desk();
    const createdKey = await desk.run("keys", "create", "--description", "for the shop", "--expires-in", "30d");
    assert.equal(createdKey.code, 0, createdKey.err);
    assert.match(createdKey.out, /^gr_sk_[0-9a-f]{32}_[0-9a-f]{10}$/);
    assert.equal(await hasValidChecksum(createdKey.out, "gr"), true);
    assert.match(createdKey.err, /cannot be shown again/);

    const list = await desk.run("keys", "list");
    const short = `gr_sk_...${createdKey.out.slice(-4)}`;
    assert.match(list.out, /^SHORT_KEY +KIND /);
    assert.ok(list.out.includes(short) && list.out.includes("for the shop"));
    assert.match(list.out, /2026-01-31T00:00:00\.000Z/);
    assert.ok(!list.out.includes(createdKey.out) && !list.out.includes(await hashKey(createdKey.out)));

    const revoked = await desk.json<ApiKeyRow>("keys", "revoke", short);
    assert.equal(revoked.revoked_at, NOW);
    assert.equal("key_hash" in revoked, false);
    const otherKey = await desk.json<ApiKeyRow & { key: string }>("keys", "create", "--expires-at", "2026-02-01 12:00");
    assert.equal(otherKey.expires_at, Date.UTC(2026, 1, 1, 12));
    assert.equal(otherKey.short_key.slice(-4), otherKey.key.slice(-4));
    assert.equal((await desk.json<ApiKeyRow>("keys", "revoke", otherKey.id)).id, otherKey.id);
    assert.equal((await desk.json<ApiKeyRow[]>("keys", "list")).length, 2);
  });

  it("manage workspaces, projects, users and agents", async () => {
    using desk = new Desk();
    const shop = await desk.json<Named>("workspaces", "create", "Shop");
    await desk.json("workspaces", "rename", "Shop", "Store");
    assert.deepEqual(
      (await desk.json<Named[]>("workspaces", "list")).map(({ name }) => name),
      ["Default", "Store"],
    );
    const bot = await desk.json<Named>("projects", "create", "Bot", "--workspace", "Store");
    await desk.json("projects", "rename", bot.id, "Robot");
    assert.deepEqual(
      (await desk.json<Named[]>("projects", "list", "--workspace", shop.id)).map(({ name }) => name),
      ["Default", "Robot"],
    );
    assert.equal((await desk.json<Named[]>("projects", "list")).length, 3);
    const ada = await desk.json<Named>("users", "create", "ada@example.com", "--name", "Ada");
    const permission = ["--permission", "runs:read,runs:create", "--permission=workspaces:read"];
    assert.deepEqual(await desk.json("users", "grant", "ada@example.com", "--workspace", "Store", ...permission), {
      subject_id: ada.id,
      scope_id: shop.id,
      permissions: ["workspaces:read", "runs:read", "runs:create"],
    });
    const token = await desk.json<ApiKeyRow>("keys", "create", "--kind", "pt", "--user", "ada@example.com");
    assert.deepEqual([token.kind, token.user_id], ["pt", ada.id]);

    const storage = nodeSqlite(desk.path);
    await storage.identity.registerDeployment({ name: "agent", workspace: "Store" }, NOW);
    await storage.close();
    await desk.json("agents", "share", "agent");
    const moved = await desk.json("agents", "transfer", "agent", "ada@example.com");
    assert.deepEqual(await desk.json("agents", "list"), [moved]);
    const unshared = await desk.json<Record<string, unknown>>("agents", "unshare", "agent");
    assert.deepEqual([unshared.owner_user_id, unshared.shared, unshared.workspace_id], [ada.id, false, shop.id]);

    await desk.json("users", "grant", ada.id, "--workspace", "Store", "--permission", "none");
    await desk.json("users", "delete", ada.id);
    assert.deepEqual(await desk.json("users", "list"), []);
    await desk.json("projects", "delete", "Robot");
    await desk.json("workspaces", "delete", "Store");
    const table = await desk.run("workspaces", "list");
    assert.match(table.out, /^NAME +ID +CREATED_AT\nDefault +[0-9a-f-]{36} +2026-01-01T00:00:00\.000Z$/);
  });

  it("work beside a storage that is open on the same file", async () => {
    using desk = new Desk();
    const server = nodeSqlite(desk.path);
    try {
      await server.migrate();
      assert.equal(await server.becomeWorker(NOW), true);
      const key = (await desk.run("keys", "create")).out;
      const grants = await server.identity.findKey(await hashKey(key));
      assert.equal(grants?.key.revoked_at, null);
      await desk.run("keys", "revoke", grants?.key.short_key ?? "");
      assert.equal((await server.identity.findKey(await hashKey(key)))?.key.revoked_at, NOW);
      assert.equal(await server.becomeWorker(NOW), true);
    } finally {
      await server.close();
    }
  });

  it("find the default rows that other processes create", async () => {
    using desk = new Desk();
    const [first, second] = [nodeSqlite(desk.path), nodeSqlite(desk.path)];
    try {
      await first.migrate();
      const deployment = { name: "agent", workspace: "Store", project: "Bots" };
      const [a, b, c, d] = await Promise.all([
        first.identity.registerDeployment(deployment, NOW),
        second.identity.registerDeployment(deployment, NOW),
        first.identity.ensureDefaults(NOW),
        second.identity.ensureDefaults(NOW),
      ]);
      assert.equal(a.kind, "made");
      assert.deepEqual(b, a);
      assert.deepEqual(d, c);
    } finally {
      await first.close();
      await second.close();
    }
  });

  it("name the problem, exit with 1 and write nothing", async () => {
    using desk = new Desk();
    await desk.json("workspaces", "create", "Shop");
    await desk.json("users", "create", "ada@example.com");
    const lists = ["keys", "workspaces", "projects", "users", "agents"];
    const all = async (): Promise<string> => {
      const parts: unknown[] = [];
      for (const word of lists) parts.push(await desk.json(word, "list"));
      return JSON.stringify(parts);
    };
    const before = await all();

    const unread: [readonly string[], ...RegExp[]][] = [
      [["keys"], /keys: a subcommand is required/, /greenroom keys create/],
      [["keys", "make"], /keys: no command make/, /greenroom keys create/],
      [["nouns", "list"], /no command nouns/, /greenroom agents transfer/],
      [["keys", "constructor"], /no command constructor/],
      [["keys", "create", "--kind", "xx"], /--kind: xx/],
      [
        ["keys", "create", "--wat", "--description", "--expires-in=soon", "x"],
        /--wat: unknown option/,
        /--description: needs a value/,
        /x: not expected here/,
      ],
      [["keys", "create", "--expires-at", "2026-02-30", "--kind=xx"], /--expires-at: 2026-02-30/, /--kind: xx/],
      [["keys", "create", "--expires-at", "tomorrow"], /--expires-at: tomorrow/],
      [["keys", "create", "--expires-in", "0d"], /--expires-in: 0d/],
      [["keys", "create", "--expires-in", "1d", "--expires-at", "2030-01-01"], /cannot be combined/],
      [["keys", "create", "--description"], /--description: needs a value/],
      [["keys", "create", "--user", "a", "--user", "b"], /--user: given twice/],
      [["keys", "create", "--permission", "runs:read,"], /--permission: an entry is empty/],
      [["keys", "revoke"], /KEY: is missing/],
      [["keys", "list", "--json=yes"], /--json: takes no value/],
      [["workspaces", "rename", "Shop"], /NAME: is missing/],
      [["workspaces", "create", "A", "B"], /B: not expected here/],
      [["users", "grant", "ada@example.com"], /--permission: required/],
    ];
    const opened = desk.opened;
    for (const [args, ...messages] of unread) {
      const { code, out, err } = await desk.run(...args);
      assert.equal(code, 1, args.join(" "));
      assert.equal(out, "");
      for (const message of messages) assert.match(err, message);
    }
    assert.equal(desk.opened, opened, "the database was not touched");

    const refused: [readonly string[], RegExp][] = [
      [
        ["keys", "create", "--expires-at", "2025-12-31T23:59:59Z"],
        /expires_at: 2025-12-31T23:59:59\.000Z is not in the future/,
      ],
      [["keys", "create", "--workspaces", "Shop,Nowhere"], /Workspace Nowhere not found/],
      [["keys", "create", "--permission", "runs:fly"], /unknown permission runs:fly/],
      [["keys", "create", "--kind", "pt"], /user: a personal token needs one/],
      [["keys", "create", "--kind", "pt", "--user", "bob@example.com"], /User bob@example\.com not found/],
      [["keys", "create", "--organization", "elsewhere"], /Organization elsewhere not found/],
      [["keys", "revoke", "gr_sk_...0000"], /API key gr_sk_\.\.\.0000 not found/],
      [["workspaces", "create", "Shop"], /Workspace Shop already exists/],
      [["workspaces", "delete", "Nowhere"], /Workspace Nowhere not found/],
      [["workspaces", "rename", "Shop", "Default"], /Workspace Default already exists/],
      [["projects", "create", "P", "--workspace", "Nowhere"], /Workspace Nowhere not found/],
      [["projects", "delete", "P"], /Project P not found/],
      [["users", "create", "ada"], /"ada" is not an email address/],
      [["users", "create", "ada@example.com"], /User ada@example\.com already exists/],
      [["users", "grant", "bob@example.com", "--permission", "runs:read"], /User bob@example\.com not found/],
      [["users", "grant", "ada@example.com", "--permission", "none,runs:read"], /unknown permission none/],
      [["agents", "share", "agent"], /Agent agent not found/],
    ];
    for (const [args, message] of refused) {
      const { code, out, err } = await desk.run(...args);
      assert.equal(code, 1, args.join(" "));
      assert.equal(out, "");
      assert.match(err, message);
      assert.doesNotMatch(err, /\n +at /, "no stack");
    }
    assert.equal(await all(), before);
  });

  it("print their help without opening the database", async () => {
    using desk = new Desk();
    for (const word of COMMANDS) {
      const { code, out } = await desk.run(word, "--help");
      assert.equal(code, 0);
      assert.equal(out, formatUsage(word));
      assert.match(out, new RegExp(`^greenroom ${word} `));
    }
    const { code, out } = await desk.run("keys", "create", "--help");
    assert.equal(code, 0);
    assert.match(out, /^greenroom keys create .*\[--expires-at TIME\]/);
    assert.match(formatUsage("users"), /default permission: organization:read/);
    assert.match(formatUsage(), /greenroom keys revoke KEY[\s\S]*greenroom agents list/);
    assert.equal(existsSync(desk.path), false);
  });

  it("accept any location of the database, and report a failure to open it", async () => {
    using desk = new Desk();
    assert.equal((await desk.run("workspaces", "list", "--database", "x.db", "--config=y.json")).code, 0);
    const err: string[] = [];
    const open = async (): Promise<Storage> => nodeSqlite(join(desk.folder, "agents.db", "no", "folder.db"));
    const code = await runCommand(["keys", "list"], open, { err: (line) => void err.push(line) });
    assert.equal(code, 1);
    assert.match(err.join("\n"), /Cannot use the database/);
  });

  it("give keys the configured prefix, and reject an invalid one", async () => {
    using desk = new Desk();
    const create = async (key_prefix: string): Promise<Ran> => {
      const [out, err]: [string[], string[]] = [[], []];
      const lines = { out: (line: string) => void out.push(line), err: (line: string) => void err.push(line) };
      const code = await runCommand(["keys", "create"], async () => nodeSqlite(desk.path), { ...lines, key_prefix });
      return { code, out: out.join("\n"), err: err.join("\n") };
    };
    assert.match((await create("lsv2")).out, /^lsv2_sk_/);
    const { code, err } = await create("No Prefix");
    assert.equal(code, 1);
    assert.match(err, /auth\.key_prefix: use up to 16 lower case letters and digits/);
  });

  it("print names without terminal control characters", async () => {
    using desk = new Desk();
    await desk.json("workspaces", "create", "Bell\u0007\u001b[2J");
    const { out } = await desk.run("workspaces", "list");
    assert.match(out, /Bell\?\?\[2J/);
  });
});
