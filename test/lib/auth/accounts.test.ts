import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { describe, it } from "node:test";
import { nodeSqlite } from "../../../adapters/sqlite/node.ts";
import { type Accounts, createAccounts, type KeyCreate } from "../../../lib/auth/accounts.ts";
import {
  generateKey,
  hashKey,
  hasValidChecksum,
  loadOwnerCaller,
  toCaller,
  toShortKey,
} from "../../../lib/auth/keys.ts";
import { type ErrorCode, ServiceError } from "../../../lib/errors.ts";
import { type Caller, type IdentityStore, PERMISSIONS, type Permission } from "../../../lib/storage/identity.ts";
import { testIds } from "../../suite/kit.ts";

const NOW = Date.UTC(2026, 0, 1);
const ofWorkspaces = PERMISSIONS.filter((name) => !name.startsWith("organization:"));
const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

interface Setting {
  readonly identity: IdentityStore;
  readonly accounts: Accounts;
  /** Returns the caller of this key. */
  caller(key: string): Promise<Caller>;
}

/** Runs `body` with accounts in a new database. */
async function withAccounts(body: (setting: Setting) => Promise<void>): Promise<void> {
  const storage = nodeSqlite(":memory:");
  try {
    await storage.migrate();
    const { identity } = storage;
    const accounts = createAccounts({ identity, environment: { now: () => NOW, uuid: testIds() } });
    const caller = async (key: string): Promise<Caller> => {
      const grants = await identity.findKey(await hashKey(key));
      assert.ok(grants, "the key is known");
      return toCaller(grants);
    };
    await body({ identity, accounts, caller });
  } finally {
    await storage.close();
  }
}

async function refused(call: Promise<unknown>, code: ErrorCode, message: RegExp): Promise<void> {
  await assert.rejects(call, (error: unknown) => {
    assert.ok(error instanceof ServiceError, String(error));
    assert.match(error.message, message);
    assert.equal(error.code, code);
    return true;
  });
}

/** Lists the permissions of a caller by workspace name. */
const permissionsIn = (caller: Caller): Record<string, readonly string[]> =>
  Object.fromEntries([...caller.workspaces].map(([id, permissions]) => [id, [...permissions].sort()]));

describe("generateKey", () => {
  it("creates keys with a prefix, a kind and a checksum of both", async () => {
    for (const [prefix, kind] of [
      ["gr", "sk"],
      ["lsv2", "pt"],
    ] as const) {
      const key = await generateKey(prefix, kind, () => crypto.randomUUID());
      assert.match(key, new RegExp(`^${prefix}_${kind}_[0-9a-f]{32}_[0-9a-f]{10}$`));
      assert.equal(key.slice(-10), sha256(key.slice(0, -11)).slice(0, 10));
      assert.equal(toShortKey(key), `${prefix}_${kind}_...${key.slice(-4)}`);
      assert.equal(toShortKey(key, 6), `${prefix}_${kind}_...${key.slice(-6)}`);
      assert.equal(await hashKey(key), sha256(key));
      assert.equal(await hasValidChecksum(key, prefix), true);
    }
  });

  it("draws two random ids for each key", async () => {
    const drawn = async (...ids: string[]): Promise<string> => {
      const key = await generateKey("gr", "sk", () => ids.shift() ?? assert.fail("drawn too often"));
      assert.equal(ids.length, 0);
      return key;
    };
    const keys = await Promise.all([drawn("a", "b"), drawn("a", "c"), drawn("d", "b"), drawn("a", "b")]);
    assert.equal(new Set(keys).size, 3);
  });

  it("creates keys that hasValidChecksum tells from malformed and altered ones", async () => {
    const key = await generateKey("gr", "sk", () => crypto.randomUUID());
    const wrongChecksumKey = key.replace(/.$/, (digit) => (digit === "0" ? "1" : "0"));
    const bad = [
      "",
      " ",
      "gr",
      ` ${key}`,
      `${key} `,
      `${key}\n`,
      key.toUpperCase(),
      key.slice(1),
      `${key}0`,
      wrongChecksumKey,
    ];
    for (const text of [...bad, key.replace("_sk_", "_pt_"), key.replace("_sk_", "_xx_"), "gr_sk_", `x${key}`]) {
      assert.equal(await hasValidChecksum(text, "gr"), false, JSON.stringify(text));
    }
    assert.equal(await hasValidChecksum(key, "g"), false);
    assert.equal(await hasValidChecksum(key, "lsv2"), false);
    assert.equal(await hasValidChecksum(key, "gr"), true);
  });
});

describe("API keys", () => {
  it("are stored as hashes only", () =>
    withAccounts(async ({ accounts, identity }) => {
      const { key, row } = await accounts.createKey({ kind: "sk", description: "for the shop" });
      assert.equal(row.key_hash, sha256(key));
      assert.equal(row.short_key, toShortKey(key));
      assert.equal(await hasValidChecksum(key, "gr"), true);
      assert.deepEqual(await accounts.listKeys(), [row]);
      const stored = JSON.stringify(await identity.findKey(row.key_hash));
      assert.ok(!stored.includes(key) && !stored.includes(key.split("_")[2] as string));
      assert.deepEqual(
        [row.created_at, row.expires_at, row.revoked_at, row.last_used_at, row.user_id],
        [NOW, null, null, null, null],
      );
    }));

  it("of a service have all permissions except management, in all workspaces including later ones", () =>
    withAccounts(async ({ accounts, identity, caller }) => {
      const { key, row } = await accounts.createKey({ kind: "sk" });
      const { organization, workspace, project } = await identity.ensureDefaults(NOW);
      const later = await accounts.createWorkspace("Later");
      const keyCaller = await caller(key);
      assert.deepEqual(
        [keyCaller.organization_id, keyCaller.user_id, keyCaller.api_key, keyCaller.key_id],
        [organization.id, null, row.short_key, row.id],
      );
      assert.deepEqual(
        [...keyCaller.permissions].sort(),
        PERMISSIONS.filter((name) => name !== "organization:manage").sort(),
      );
      const all = [...ofWorkspaces].sort();
      assert.deepEqual(permissionsIn(keyCaller), { [workspace.id]: all, [later.id]: all });
      const [first] = await accounts.listProjects(later.id);
      assert.deepEqual(
        [...keyCaller.projects],
        [
          [workspace.id, project.id],
          [later.id, first?.id],
        ],
      );
    }));

  it("of a service reach only the workspaces that they name", () =>
    withAccounts(async ({ accounts, caller }) => {
      const [firstWorkspace] = [await accounts.createWorkspace("One"), await accounts.createWorkspace("Two")];
      const permissions: Permission[] = ["organization:read", "runs:read"];
      const { key } = await accounts.createKey({ kind: "sk", workspaces: ["One", firstWorkspace.id], permissions });
      const keyCaller = await caller(key);
      assert.deepEqual([...keyCaller.permissions], ["organization:read"]);
      assert.deepEqual(permissionsIn(keyCaller), { [firstWorkspace.id]: ["runs:read"] });
      await accounts.deleteWorkspace("One");
      assert.deepEqual(permissionsIn(await caller(key)), {});
      const narrow = await accounts.createKey({ kind: "sk", workspaces: ["Two"], permissions: ["runs:read"] });
      assert.deepEqual([...(await caller(narrow.key)).permissions], []);
    }));

  it("of a user have the current permissions of that user", () =>
    withAccounts(async ({ accounts, identity, caller }) => {
      const { organization, workspace } = await identity.ensureDefaults(NOW);
      const ada = await accounts.createUser({ email: "ada@example.com" });
      const { key, row } = await accounts.createKey({ kind: "pt", user: "ada@example.com" });
      assert.match(key, /^gr_pt_/);
      const first = await caller(key);
      assert.deepEqual(
        [first.user_id, [...first.permissions], first.workspaces.size],
        [ada.id, ["organization:read"], 0],
      );
      await accounts.grant({ user: ada.id, workspace: "Default", permissions: ["runs:read", "workspaces:read"] });
      assert.deepEqual(permissionsIn(await caller(key)), { [workspace.id]: ["runs:read", "workspaces:read"] });
      await accounts.grant({ user: ada.id, permissions: ["organization:manage", "feedback:read"] });
      const grown = await caller(key);
      assert.deepEqual([...grown.permissions].sort(), ["feedback:read", "organization:manage"]);
      assert.deepEqual(permissionsIn(grown), { [workspace.id]: ["feedback:read", "runs:read", "workspaces:read"] });
      assert.deepEqual(
        (await accounts.listMemberships("ada@example.com")).map(({ scope_id }) => scope_id).sort(),
        [organization.id, workspace.id].sort(),
      );
      await accounts.deleteUser("ada@example.com");
      assert.equal(await identity.findKey(row.key_hash), null);
      assert.equal((await accounts.listKeys())[0]?.revoked_at, NOW);
    }));

  it("end when they expire or are revoked", () =>
    withAccounts(async ({ accounts }) => {
      const { row } = await accounts.createKey({ kind: "sk", expires_at: NOW + 1 });
      assert.equal(row.expires_at, NOW + 1);
      assert.equal((await accounts.revokeKey(row.short_key)).revoked_at, NOW);
      assert.equal((await accounts.revokeKey(row.id)).revoked_at, NOW);
      await refused(accounts.revokeKey("gr_sk_...none"), "not_found", /API key gr_sk_\.\.\.none not found/);
    }));

  it("get a short form with six digits after 20 drawn short forms were taken", () =>
    withAccounts(async ({ accounts, identity }) => {
      const forms: string[] = [];
      const crowded: IdentityStore = {
        ...identity,
        async createKey(key, memberships) {
          forms.push(key.short_key);
          return /\.{3}.{4}$/.test(key.short_key) ? { kind: "short_key_taken" } : identity.createKey(key, memberships);
        },
      };
      const environment = { now: () => NOW, uuid: testIds() };
      const { row } = await createAccounts({ identity: crowded, environment }).createKey({ kind: "sk" });
      assert.equal(forms.length, 21);
      assert.equal(new Set(forms).size, 21);
      assert.match(row.short_key, /^gr_sk_\.{3}[0-9a-f]{6}$/);
      assert.deepEqual(await accounts.listKeys(), [row]);

      const full: IdentityStore = { ...identity, createKey: async () => ({ kind: "short_key_taken" }) };
      await refused(
        createAccounts({ identity: full, environment }).createKey({ kind: "sk" }),
        "conflict",
        /short form/,
      );
    }));

  it("start with the configured prefix", () =>
    withAccounts(async ({ identity }) => {
      const environment = { now: () => NOW, uuid: testIds() };
      const { key } = await createAccounts({ identity, environment, key_prefix: "lsv2" }).createKey({ kind: "sk" });
      assert.match(key, /^lsv2_sk_/);
    }));

  it("are refused with every problem of the request, and nothing is written", () =>
    withAccounts(async ({ accounts, identity }) => {
      await accounts.createWorkspace("One");
      const cases: [Partial<KeyCreate> & Record<string, unknown>, ErrorCode, RegExp][] = [
        [{ kind: "xx" as "sk" }, "invalid", /kind: "xx"/],
        [{ kind: "pt" }, "invalid", /user: a personal token needs one/],
        [{ kind: "pt", user: "nobody@example.com" }, "not_found", /User nobody@example\.com not found/],
        [{ kind: "pt", user: "u", workspaces: ["One"], permissions: [] }, "invalid", /workspaces: .*; permissions: /],
        [{ user: "ada@example.com" }, "invalid", /user: a service key has none/],
        [{ workspaces: ["One", "Two", "Three"] }, "not_found", /Workspace Two, Three not found/],
        [{ workspaces: [] }, "invalid", /workspaces: must not be empty/],
        [{ permissions: [] }, "invalid", /permissions: must not be empty/],
        [
          { permissions: ["runs:read", "runs:fly" as "runs:read"] },
          "invalid",
          /unknown permission runs:fly; use organization:read,/,
        ],
        [{ expires_at: NOW }, "invalid", /expires_at: 2026-01-01T00:00:00\.000Z is not in the future/],
        [{ expires_at: -1e20 }, "invalid", /expires_at/],
        [{ expires_at: 1e20 }, "invalid", /expires_at/],
        [{ expires_at: Number.NaN }, "invalid", /expires_at/],
        [{ organization_id: "elsewhere" }, "not_found", /Organization elsewhere not found/],
        [{ description: "x".repeat(256) }, "invalid", /description/],
        [{ expires_at: 1, description: "x".repeat(256) }, "invalid", /expires_at: .*; description: /],
      ];
      for (const [request, code, message] of cases) {
        await refused(accounts.createKey({ kind: "sk", ...request }), code, message);
      }
      assert.equal((await identity.listKeys({ limit: 1 })).length > 0, false);
    }));
});

describe("workspaces, projects and users", () => {
  it("can be named by id or by name", () =>
    withAccounts(async ({ accounts }) => {
      const shop = await accounts.createWorkspace("Shop");
      assert.equal((await accounts.renameWorkspace(shop.id.toUpperCase(), "Store")).name, "Store");
      assert.equal((await accounts.renameWorkspace("Store", "Shop")).id, shop.id);
      const bot = await accounts.createProject("Bot", "Shop");
      assert.equal(bot.workspace_id, shop.id);
      assert.equal((await accounts.renameProject("Bot", "Robot")).id, bot.id);
      const twin = await accounts.createProject("Robot");
      await refused(accounts.deleteProject("Robot"), "invalid", /Robot is in several workspaces/);
      assert.equal((await accounts.deleteProject("Robot", "Default")).id, twin.id);
      assert.deepEqual(
        (await accounts.listProjects()).map(({ name }) => name),
        ["Default", "Default", "Robot"],
      );
      assert.deepEqual(
        (await accounts.listProjects("Shop")).map(({ name }) => name),
        ["Default", "Robot"],
      );
      assert.equal((await accounts.deleteWorkspace("Shop")).deleted_at, NOW);
      assert.deepEqual(
        (await accounts.listWorkspaces()).map(({ name }) => name),
        ["Default"],
      );
      const ada = await accounts.createUser({ email: "ada@example.com", name: "Ada" });
      assert.deepEqual(await accounts.listUsers(), [ada]);
      assert.equal((await accounts.deleteUser(ada.id)).deleted_at, NOW);
      assert.deepEqual(await accounts.listUsers(), []);
    }));

  it("are refused with every problem of the request, and nothing is written", () =>
    withAccounts(async ({ accounts }) => {
      await accounts.createWorkspace("One");
      await accounts.createUser({ email: "ada@example.com" });
      const before = JSON.stringify([
        await accounts.listWorkspaces(),
        await accounts.listProjects(),
        await accounts.listUsers(),
      ]);
      const calls: [() => Promise<unknown>, ErrorCode, RegExp][] = [
        [() => accounts.createWorkspace("One"), "conflict", /Workspace One already exists/],
        [() => accounts.createWorkspace(""), "invalid", /Workspace name ""/],
        [() => accounts.createWorkspace(" x"), "invalid", /white space/],
        [() => accounts.createWorkspace("x".repeat(256)), "invalid", /255/],
        [() => accounts.createWorkspace("7b1c2f0e-3a54-5d86-9c1b-000000000001"), "invalid", /looks like an id/],
        [() => accounts.createWorkspace("New", "elsewhere"), "not_found", /Organization elsewhere not found/],
        [() => accounts.renameWorkspace("One", "Default"), "conflict", /Workspace Default already exists/],
        [() => accounts.renameWorkspace("Two", "Three"), "not_found", /Workspace Two not found/],
        [() => accounts.deleteWorkspace("Two"), "not_found", /Workspace Two not found/],
        [() => accounts.createProject("Default"), "conflict", /Project Default already exists/],
        [() => accounts.createProject("P", "Two"), "not_found", /Workspace Two not found/],
        [() => accounts.renameProject("P", "Q"), "not_found", /Project P not found/],
        [() => accounts.deleteProject("P"), "not_found", /Project P not found/],
        [() => accounts.listProjects("Two"), "not_found", /Workspace Two not found/],
        [() => accounts.createUser({ email: "ada@example.com" }), "conflict", /User ada@example\.com already exists/],
        [() => accounts.createUser({ email: "ada" }), "invalid", /"ada" is not an email address/],
        [
          () => accounts.createUser({ email: "b@example.com", permissions: ["x" as "runs:read"] }),
          "invalid",
          /unknown permission x/,
        ],
        [() => accounts.deleteUser("bob@example.com"), "not_found", /User bob@example\.com not found/],
        [() => accounts.grant({ user: "bob@example.com", permissions: [] }), "not_found", /User bob@example\.com/],
        [
          () => accounts.grant({ user: "ada@example.com", workspace: "Two", permissions: ["runs:read"] }),
          "not_found",
          /Workspace Two/,
        ],
        [
          () => accounts.grant({ user: "ada@example.com", workspace: "One", permissions: ["organization:read"] }),
          "invalid",
          /organization:read can be granted only on the organization/,
        ],
        [() => accounts.shareAgent("none"), "not_found", /Agent none not found/],
        [() => accounts.transferAgent("none", "bob@example.com"), "not_found", /User bob@example\.com/],
        [() => accounts.transferAgent("none", "ada@example.com"), "not_found", /Agent none not found/],
      ];
      for (const [call, code, message] of calls) await refused(call(), code, message);
      assert.equal(
        JSON.stringify([await accounts.listWorkspaces(), await accounts.listProjects(), await accounts.listUsers()]),
        before,
      );
    }));

  it("own agents, which can be shared and transferred", () =>
    withAccounts(async ({ accounts, identity }) => {
      const ada = await accounts.createUser({ email: "ada@example.com" });
      await identity.registerDeployment({ name: "agent" }, NOW);
      assert.equal((await accounts.shareAgent("agent")).shared, true);
      assert.equal((await accounts.transferAgent("agent", "ada@example.com")).owner_user_id, ada.id);
      const row = await accounts.unshareAgent("agent");
      assert.deepEqual([row.shared, row.owner_user_id], [false, ada.id]);
      assert.deepEqual(await accounts.listAgents(), [row]);
    }));
});

describe("the owner caller without authentication", () => {
  it("has all permissions in the default organization", () =>
    withAccounts(async ({ accounts, identity }) => {
      const { organization, workspace, project } = await identity.ensureDefaults(NOW);
      const later = await accounts.createWorkspace("A");
      await accounts.createProject("A");
      const caller = await loadOwnerCaller(identity);
      assert.deepEqual(
        [caller.organization_id, caller.user_id, caller.api_key, caller.key_id],
        [organization.id, null, null, null],
      );
      assert.deepEqual([...caller.permissions].sort(), [...PERMISSIONS].sort());
      const all = [...ofWorkspaces].sort();
      assert.deepEqual(permissionsIn(caller), { [later.id]: all, [workspace.id]: all });
      assert.equal(caller.projects.get(workspace.id), project.id);
      assert.equal(caller.projects.get(later.id), (await accounts.listProjects(later.id))[0]?.id);
      assert.deepEqual((await identity.ensureDefaults(NOW)).workspace, workspace);
    }));
});
