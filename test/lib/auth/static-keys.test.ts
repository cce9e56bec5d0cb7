/** Accounts that `staticIdentity` makes from options. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createAccounts } from "../../../lib/auth/accounts.ts";
import { hashKey, toCaller } from "../../../lib/auth/keys.ts";
import { type StaticIdentityOptions, staticIdentity } from "../../../lib/auth/static-keys.ts";
import { ConfigError, ServiceError } from "../../../lib/errors.ts";
import { type Caller, type IdentityStore, PERMISSIONS } from "../../../lib/storage/identity.ts";
import { testIds } from "../../suite/kit.ts";
import { placementCases } from "../../suite/storage/identity.ts";

const NOW = Date.UTC(2026, 0, 1);
const ofWorkspaces = PERMISSIONS.filter((name) => !name.startsWith("organization:"));
const key = "an-own-key-of-at-least-32-characters";
const uuid = (number: number): string => `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`;

async function callerWith(identity: IdentityStore, text: string): Promise<Caller> {
  const grants = await identity.findKey(await hashKey(text));
  assert.ok(grants);
  return toCaller(grants);
}

/** Lists the permissions of a caller by workspace. */
const readPermissions = (caller: Caller): Record<string, readonly string[]> =>
  Object.fromEntries([...caller.workspaces].map(([id, permissions]) => [id, [...permissions].sort()]));

describe("static identity", () => {
  placementCases({ describe, it }, (name, body) => it(name, () => body(staticIdentity({ keys: [] }))));

  it("authenticates its keys, in any format", async () => {
    const identity = staticIdentity({ keys: [key, `another-${key}-1234`, `one-more-${key}-1234`] });
    assert.equal(identity.any_keys, true);
    const { organization, workspace, project } = await identity.ensureDefaults(NOW);
    const caller = await callerWith(identity, key);
    assert.deepEqual(
      [...caller.permissions].sort(),
      PERMISSIONS.filter((name) => name !== "organization:manage").sort(),
    );
    assert.deepEqual(readPermissions(caller), { [workspace.id]: [...ofWorkspaces].sort() });
    assert.deepEqual([...caller.projects], [[workspace.id, project.id]]);
    assert.equal(caller.organization_id, organization.id);
    assert.deepEqual(
      (await identity.listKeys({ organization_id: organization.id })).map(({ short_key }) => short_key),
      ["static_...ters", "static_...1234", "static_...s-1234"],
    );
    assert.equal(await identity.findKey(await hashKey(`${key} `)), null);
    assert.equal((await identity.revokeKey(organization.id, "static_...ters", NOW))?.revoked_at, NOW);
  });

  it("derives the same ids in every process", async () => {
    const ids = async (): Promise<string> => {
      const identity = staticIdentity({ keys: [key] });
      await identity.registerDeployment({ name: "d", workspace: "Blue", project: "Bots" }, NOW);
      const { organization, workspace, project } = await identity.ensureDefaults(NOW);
      const [storedKey] = await identity.listKeys({ organization_id: organization.id });
      return JSON.stringify([organization, workspace, project, await identity.getDeployment("d"), storedKey]);
    };
    assert.equal(await ids(), await ids());
    assert.ok(!(await ids()).includes(key));
  });

  it("uses workspaces, projects and users with configured ids", async () => {
    const identity = staticIdentity({
      organization: { id: "o", name: "Acme" },
      workspaces: [
        { id: "w1", name: "Acme Prod" },
        { id: "w2", name: "=SUM(A1:A9)" },
        { id: "w3", name: "Not Readable" },
      ],
      projects: [
        { id: "p1", workspace: "w1", name: "b" },
        { id: "p2", workspace: "w1", name: "a" },
      ],
      users: [{ id: "u1", email: "ada@example.com" }, { id: "u3" }],
      keys: [
        {
          key,
          short_key: "lsv2_pt_...c3d4",
          user: "u1",
          workspaces: ["w1", "w2"],
          permissions: ["organization:read", "workspaces:read", "feedback:create"],
        },
      ],
    });
    const caller = await callerWith(identity, key);
    assert.deepEqual([caller.organization_id, caller.user_id, caller.api_key], ["o", "u1", "lsv2_pt_...c3d4"]);
    assert.deepEqual([...caller.permissions], ["organization:read"]);
    assert.deepEqual(readPermissions(caller), {
      w1: ["feedback:create", "workspaces:read"],
      w2: ["feedback:create", "workspaces:read"],
    });
    assert.equal(caller.projects.get("w1"), "p1");
    assert.ok(caller.projects.get("w2"));
    const names = await identity.readNames({ workspaces: ["w2"], projects: ["p2"], users: ["u1", "u3"] });
    assert.deepEqual(
      [[...names.workspaces], [...names.projects], [...names.users]],
      [
        [["w2", "=SUM(A1:A9)"]],
        [["p2", "a"]],
        [
          ["u1", "ada@example.com"],
          ["u3", null],
        ],
      ],
    );
    assert.deepEqual((await identity.getUser("u3"))?.email, null);
  });

  it("has a default workspace with projects if the options name none", async () => {
    const identity = staticIdentity({ keys: [key], workspaces: [] });
    const { organization, workspace, project } = await identity.ensureDefaults(NOW);
    assert.deepEqual([workspace.name, project.name, project.workspace_id], ["Default", "Default", workspace.id]);
    assert.deepEqual(await identity.listUnits("workspace", [organization.id]), [workspace]);
    assert.deepEqual([...(await callerWith(identity, key)).projects], [[workspace.id, project.id]]);
    assert.deepEqual(
      [(await identity.listKeys({})).length, (await staticIdentity({ keys: [] }).listKeys({})).length],
      [1, 0],
    );
  });

  it("finds workspace and project of a deployment by id, and creates nothing for an unknown id", async () => {
    const identity = staticIdentity({
      keys: [],
      workspaces: [
        { id: uuid(1), name: "one" },
        { id: uuid(2), name: "two" },
      ],
      projects: [{ id: uuid(3), workspace: uuid(2), name: "P" }],
    });
    for (const location of [
      { workspace: uuid(2) },
      { workspace: "two" },
      { project: uuid(3) },
      { workspace: "two", project: uuid(3) },
      { workspace: uuid(2), project: "P" },
    ]) {
      const outcome = await identity.registerDeployment({ name: JSON.stringify(location), ...location }, NOW);
      assert.ok(outcome.kind === "made", outcome.kind);
      assert.deepEqual([outcome.row.workspace_id, outcome.row.project_id], [uuid(2), uuid(3)]);
    }
    for (const location of [
      { workspace: uuid(9) },
      { project: uuid(9) },
      { workspace: "New", project: uuid(9) },
      { workspace: "New", project: uuid(3) },
      { workspace: uuid(1), project: uuid(3) },
      { workspace: uuid(9), project: "New" },
      { workspace: "New", owner_user_id: "nobody" },
    ]) {
      const outcome = await identity.registerDeployment({ name: "none", ...location }, NOW);
      assert.deepEqual(outcome, { kind: "parent_not_found" }, JSON.stringify(location));
    }
    const { organization } = await identity.ensureDefaults(NOW);
    assert.equal(await identity.getDeployment("none"), null);
    assert.equal((await identity.listUnits("workspace", [organization.id])).length, 2);
    assert.equal((await identity.listUnits("project", [uuid(1), uuid(2)])).length, 2);
    // Without a workspace and a project, an existing deployment keeps them, and a new one gets the oldest.
    const moved = await identity.registerDeployment({ name: "d", workspace: "two" }, NOW);
    assert.deepEqual(await identity.registerDeployment({ name: "d" }, NOW), moved);
    const first = await identity.registerDeployment({ name: "e" }, NOW);
    assert.equal(first.kind === "made" && first.row.workspace_id, uuid(1));
    const names = (await identity.listDeployments(organization.id)).map(({ name }) => name);
    assert.deepEqual([names.length, names], [7, [...names].sort()]);
  });

  it("gives no new row the id of a configured one", async () => {
    const derived = staticIdentity({ keys: [] });
    const created = await derived.registerDeployment({ name: "d", workspace: "Blue", project: "Bots" }, NOW);
    assert.ok(created.kind === "made");
    const { workspace_id, project_id } = created.row;
    const renamed = (): IdentityStore =>
      staticIdentity({
        keys: [],
        workspaces: [{ id: workspace_id, name: "Azure" }],
        projects: [{ id: project_id, name: "Robots", workspace: workspace_id }],
      });
    const again = async (location: { readonly workspace?: string; readonly project: string }): Promise<string> => {
      const outcome = await renamed().registerDeployment({ name: "d", ...location }, NOW);
      assert.ok(outcome.kind === "made");
      return JSON.stringify(outcome.row);
    };
    const differentRow = await again({ workspace: "Blue", project: "Bots" });
    assert.ok(!differentRow.includes(workspace_id) && !differentRow.includes(project_id));
    assert.equal(await again({ workspace: "Blue", project: "Bots" }), differentRow);
    const sibling = JSON.parse(await again({ project: "Bots" }));
    assert.equal(sibling.workspace_id, workspace_id);
    assert.notEqual(sibling.project_id, project_id);
  });

  it("lists workspaces and projects by name, in the order of code points", async () => {
    const names = ["b", "B", "\u{1F600}", "\uFF5E", "ba"];
    const identity = staticIdentity({
      keys: [],
      workspaces: names.map((name, i) => ({ id: `w${i}`, name })),
      projects: names.map((name, i) => ({ id: `p${i}`, name, workspace: "w0" })),
    });
    const { organization, workspace } = await identity.ensureDefaults(NOW);
    assert.equal(workspace.id, "w0", "the first one is the oldest");
    const sorted = ["B", "b", "ba", "\uFF5E", "\u{1F600}"];
    const listed = async (rows: Promise<readonly { readonly name: string }[]>): Promise<readonly string[]> =>
      (await rows).map(({ name }) => name);
    assert.deepEqual(await listed(identity.listUnits("workspace", [organization.id])), sorted);
    assert.deepEqual(await listed(identity.listUnits("project", ["w0"])), sorted);
    assert.deepEqual(
      [await identity.listUnits("workspace", ["other"]), await identity.listUnits("project", [])],
      [[], []],
    );
    assert.deepEqual(
      [await identity.listKeys({ organization_id: "other" }), await identity.listDeployments("other")],
      [[], []],
    );
  });

  it("revokes keys by id or short form once, and records their use", async () => {
    const identity = staticIdentity({ keys: [key, { key: `${key}-2`, short_key: "two" }] });
    const { organization } = await identity.ensureDefaults(NOW);
    const [first] = await identity.listKeys({ organization_id: organization.id });
    const id = first?.id as string;
    assert.equal((await identity.revokeKey(organization.id, id, NOW))?.revoked_at, NOW);
    assert.equal((await identity.revokeKey(organization.id, id, NOW + 1))?.revoked_at, NOW);
    assert.equal((await identity.findKey(await hashKey(key)))?.key.revoked_at, NOW);
    assert.equal(await identity.revokeKey("other", "two", NOW), null);
    assert.equal(await identity.revokeKey(organization.id, "three", NOW), null);
    const used = async (now: number): Promise<number | null | undefined> => {
      await identity.touchKey(id, now);
      return (await identity.listKeys({ organization_id: organization.id }))[0]?.last_used_at;
    };
    assert.deepEqual([await used(NOW), await used(NOW + 59_999), await used(NOW + 60_000)], [NOW, NOW, NOW + 60_000]);
    await identity.touchKey("nothing", NOW);
    assert.equal((await identity.revokeKey(organization.id, "two", NOW))?.short_key, "two");
    assert.equal((await identity.listKeys({ organization_id: organization.id })).length, 2);
  });

  it("keeps owner and sharing of an agent until they are changed", async () => {
    const identity = staticIdentity({ keys: [], users: [{ id: "u1", email: "ada@example.com" }, { id: "u2" }] });
    const accounts = createAccounts({ identity, environment: { now: () => NOW, uuid: testIds() } });
    const agent = { name: "agent", owner_user_id: "u1", shared: true };
    const created = await identity.registerDeployment(agent, NOW);
    assert.ok(created.kind === "made");
    assert.deepEqual([created.row.owner_user_id, created.row.shared], ["u1", true]);
    assert.deepEqual(await identity.registerDeployment({ ...agent, owner_user_id: "u2", shared: false }, NOW), created);
    assert.equal((await accounts.unshareAgent("agent")).shared, false);
    assert.equal((await accounts.transferAgent("agent", "u2")).owner_user_id, "u2");
    assert.equal((await accounts.transferAgent("agent", "ada@example.com")).owner_user_id, "u1");
    assert.equal(await identity.updateDeployment("agent", { owner_user_id: "u9" }), null);
    assert.equal((await identity.updateDeployment("agent", { owner_user_id: null }))?.owner_user_id, null);
    assert.equal(await identity.updateDeployment("other", { shared: true }), null);
    assert.deepEqual(await accounts.listAgents(), [{ ...created.row, owner_user_id: null, shared: false }]);
  });

  it("creates users of custom authentication with the same ids in every process", async () => {
    const ann = { workspace_id: uuid(1), identity: "ann" };
    const identity = staticIdentity({ keys: [], users: [{ id: "u1", email: "ada@example.com" }] });
    const ids = await Promise.all([identity.ensureUser(ann, NOW), identity.ensureUser(ann, NOW + 1)]);
    const id = ids[0] as string;
    assert.deepEqual(ids, [id, await staticIdentity({ keys: [] }).ensureUser(ann, NOW)]);
    const otherUserIds = [
      await identity.ensureUser({ ...ann, identity: "Ann" }, NOW),
      await identity.ensureUser({ ...ann, identity: "" }, NOW),
      await identity.ensureUser({ ...ann, workspace_id: uuid(2) }, NOW),
    ];
    assert.equal(new Set([id, ...otherUserIds]).size, 4);
    const emails = async (): Promise<unknown> => {
      const { users } = await identity.readNames({ users: [id, otherUserIds[0] as string] });
      return [users.get(id), users.get(otherUserIds[0] as string)];
    };
    assert.deepEqual(await emails(), [null, null]);
    assert.equal(await identity.ensureUser({ ...ann, email: "ann@example.com" }, NOW), id);
    assert.equal(await identity.ensureUser(ann, NOW), id);
    for (const takenEmail of ["ann@example.com", "ada@example.com"]) {
      await identity.ensureUser({ ...ann, identity: "Ann", email: takenEmail }, NOW);
      assert.deepEqual(await emails(), ["ann@example.com", null], "an email is one user's");
    }
    await identity.ensureUser({ ...ann, email: "new@example.com" }, NOW);
    await identity.ensureUser({ ...ann, identity: "Ann", email: "ann@example.com" }, NOW);
    assert.deepEqual(await emails(), ["new@example.com", "ann@example.com"]);
    assert.equal((await identity.getUser("new@example.com"))?.id, id);
    assert.equal(await identity.getUser("nobody@example.com"), null);
  });

  it("forbids all other changes, and writes nothing", async () => {
    const identity = staticIdentity({ keys: [key], users: [{ id: "u1", email: "ada@example.com" }] });
    const accounts = createAccounts({ identity, environment: { now: () => NOW, uuid: testIds() } });
    const all = async (): Promise<string> => {
      const { organization } = await identity.ensureDefaults(NOW);
      return JSON.stringify([
        ...[await accounts.listKeys(), await accounts.listWorkspaces(), await accounts.listProjects()],
        ...[await accounts.listUsers(), await accounts.listMemberships("u1"), await accounts.listAgents()],
        ...[await identity.getUser("u1"), await identity.getUser("bob@example.com"), organization],
      ]);
    };
    const before = await all();
    const calls: readonly (() => Promise<unknown>)[] = [
      () => accounts.createKey({ kind: "sk" }),
      () => accounts.createKey({ kind: "pt", user: "ada@example.com" }),
      () => accounts.createWorkspace("Shop"),
      () => accounts.renameWorkspace("Default", "Shop"),
      () => accounts.deleteWorkspace("Default"),
      () => accounts.createProject("Bot"),
      () => accounts.renameProject("Default", "Bot"),
      () => accounts.deleteProject("Default"),
      () => accounts.createUser({ email: "bob@example.com" }),
      () => accounts.deleteUser("u1"),
      () => accounts.grant({ user: "u1", permissions: ["runs:read"] }),
    ];
    for (const call of calls) {
      await assert.rejects(call, (error: unknown) => {
        assert.ok(error instanceof ServiceError);
        assert.deepEqual([error.code, /These accounts are static/.test(error.message)], ["forbidden", true]);
        return true;
      });
    }
    assert.equal(await all(), before);
  });

  it("refuses invalid options with every problem, and shows no key", () => {
    const secret = "tell-nobody";
    const options: StaticIdentityOptions = {
      keys: [
        secret,
        `${secret} with blanks that make it long enough`,
        key,
        { key, workspaces: ["w9"], user: "u9", permissions: ["fly" as "runs:read"] },
      ],
      workspaces: [{ id: "w1", name: "One" }],
      projects: [{ id: "p1", name: "P", workspace: "w8" }],
    };
    assert.throws(
      () => staticIdentity(options),
      (error: unknown) => {
        assert.ok(error instanceof ConfigError);
        for (const part of [
          /keys\.0: has 11 characters; use at least 32/,
          /keys\.1: .*without white space/,
          /keys\.3: there is no permission fly/,
          /keys\.3: no workspace w9/,
          /keys\.3: no user u9/,
          /projects: p1: no workspace w8/,
          /keys: must be unique/,
        ]) {
          assert.match(error.message, part);
        }
        assert.ok(!error.message.includes(secret) && !error.message.includes(key));
        return true;
      },
    );
  });
});
