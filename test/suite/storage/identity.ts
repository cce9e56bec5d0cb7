/** Tests of identity stores: defaults, deployments, keys, workspaces, projects, users and memberships. */
import assert from "node:assert/strict";
import type { ApiKeyRow, IdentityStore, MembershipRow, UserRow, WorkspaceRow } from "../../../lib/storage/identity.ts";
import type { StorageTest, SuiteApi } from "./material.ts";

/** Defines a test on a new store without keys and users. */
export type IdentityTest = (name: string, body: (store: IdentityStore) => Promise<void>) => void;

const uuid = (number: number): string => `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`;
const times = <Value>(count: number, make: (i: number) => Value): Value[] =>
  Array.from({ length: count }, (_, i) => make(i));

const createKeyRow = (organization_id: string, row: Partial<ApiKeyRow> = {}): ApiKeyRow => ({
  id: "key",
  organization_id,
  user_id: null,
  kind: "sk",
  key_hash: `hash of ${row.id ?? "key"}`,
  short_key: `gr_sk_...${row.id ?? "key"}`,
  description: null,
  created_at: 2000,
  expires_at: null,
  revoked_at: null,
  last_used_at: null,
  ...row,
});

const createUserRow = (id: string, row: Partial<UserRow> = {}): UserRow => ({
  id,
  email: `${id}@example.com`,
  name: null,
  created_at: 2000,
  deleted_at: null,
  ...row,
});

async function createWorkspace(store: IdentityStore, id: string, created_at = 2000): Promise<WorkspaceRow> {
  const { organization } = await store.ensureDefaults(1000);
  const row = { id, organization_id: organization.id, name: `Name of ${id}`, created_at, deleted_at: null };
  assert.deepEqual(await store.createUnit("workspace", row), { kind: "made", row });
  return row;
}

export function identityTests(api: SuiteApi, test: StorageTest): void {
  identityCases(api, (name, body) => test(name, (storage) => body(storage.identity)));
}

/** Runs the tests that need no rows of their own: a read-only store passes them too. */
export function placementCases(api: SuiteApi, test: IdentityTest): void {
  api.describe("defaults and deployments by name", () => {
    test("have one organization, workspace and project, also with concurrent requests", async (store) => {
      const all = await Promise.all(times(8, (i) => store.ensureDefaults(1000 + i)));
      for (const defaults of all) assert.deepEqual(defaults, all[0]);
      const { organization, workspace, project } = await store.ensureDefaults(9000);
      assert.deepEqual([organization.name, workspace.name, project.name], ["Default", "Default", "Default"]);
      assert.deepEqual([workspace.organization_id, project.workspace_id], [organization.id, workspace.id]);
      assert.deepEqual(await store.listUnits("workspace", [organization.id]), [workspace]);
      assert.deepEqual(await store.listUnits("project", [workspace.id]), [project]);
    });

    test("put a deployment into the default project, once", async (store) => {
      const outcomes = await Promise.all(times(6, (i) => store.registerDeployment({ name: "d" }, 1000 + i)));
      const { organization, workspace, project } = await store.ensureDefaults(2000);
      const row = {
        name: "d",
        project_id: project.id,
        workspace_id: workspace.id,
        organization_id: organization.id,
        owner_user_id: null,
        shared: false,
      };
      for (const outcome of outcomes) assert.deepEqual(outcome, { kind: "made", row });
      assert.deepEqual(await store.getDeployment("d"), row);
      assert.equal(await store.getDeployment("e"), null);
      assert.deepEqual(await store.listDeployments(organization.id), [row]);
      assert.deepEqual(await store.listDeployments("other"), []);
    });

    test("are created by name, and a deployment moves there", async (store) => {
      await store.registerDeployment({ name: "d" }, 1000);
      const placement = { name: "d", workspace: "Blue", project: "Bots" };
      const outcomes = await Promise.all(times(6, () => store.registerDeployment(placement, 2000)));
      const [first] = outcomes;
      assert.ok(first?.kind === "made");
      for (const outcome of outcomes) assert.deepEqual(outcome, first);
      const { organization } = await store.ensureDefaults(2000);
      const blue = (await store.listUnits("workspace", [organization.id])).filter(({ name }) => name === "Blue");
      assert.deepEqual(
        blue.map(({ id }) => id),
        [first.row.workspace_id],
      );
      const projects = await store.listUnits("project", [first.row.workspace_id]);
      assert.deepEqual(
        projects.map(({ id, name }) => [id, name]),
        [[first.row.project_id, "Bots"]],
      );
      // Without a workspace and project, the deployment stays in place.
      assert.deepEqual(await store.registerDeployment({ name: "d" }, 3000), first);
      assert.deepEqual(await store.registerDeployment({ name: "d", workspace: "Blue" }, 3000), first);
      // Other deployments with these names join the same project.
      const otherDeployment = await store.registerDeployment({ name: "e", workspace: "Blue" }, 3000);
      assert.ok(otherDeployment.kind === "made" && otherDeployment.row.project_id === first.row.project_id);
    });
  });
}

/** The conformance tests of IdentityStore. */
function identityCases(api: SuiteApi, test: IdentityTest): void {
  placementCases(api, test);
  api.describe("defaults and deployments", () => {
    test("are the oldest rows, and are created again after the last one is deleted", async (store) => {
      const { organization, workspace, project } = await store.ensureDefaults(1000);
      const younger = await createWorkspace(store, "w2");
      assert.equal((await store.ensureDefaults(3000)).workspace.id, workspace.id);
      assert.equal((await store.deleteUnit("workspace", workspace.id, 3000))?.deleted_at, 3000);
      const next = await store.ensureDefaults(4000);
      assert.deepEqual(next.workspace, younger);
      assert.notEqual(next.project.id, project.id);
      await store.deleteUnit("workspace", younger.id, 5000);
      const last = await store.ensureDefaults(6000);
      assert.deepEqual([last.organization.id, last.workspace.name], [organization.id, "Default"]);
      assert.ok(![workspace.id, younger.id].includes(last.workspace.id));
    });

    test("are found by id, and are not created for an unknown id", async (store) => {
      const { organization, workspace } = await store.ensureDefaults(1000);
      const w2 = await createWorkspace(store, uuid(2));
      const project = { id: uuid(3), workspace_id: w2.id, name: "P", created_at: 2000, deleted_at: null };
      assert.equal((await store.createUnit("project", project)).kind, "made");
      for (const deployment of [
        { workspace: uuid(2) },
        { project: uuid(3) },
        { workspace: w2.name, project: uuid(3) },
      ]) {
        const outcome = await store.registerDeployment(
          { name: `by ${JSON.stringify(deployment)}`, ...deployment },
          3000,
        );
        assert.deepEqual(outcome.kind === "made" && [outcome.row.workspace_id, outcome.row.project_id], [
          w2.id,
          uuid(3),
        ]);
      }
      for (const deployment of [
        { workspace: uuid(9) },
        { project: uuid(9) },
        { workspace: "New", project: uuid(9) },
        { workspace: "New", project: uuid(3) },
        { workspace: workspace.id, project: uuid(3) },
        { workspace: uuid(9), project: "New" },
        { workspace: "New", owner_user_id: "nobody" },
      ]) {
        assert.deepEqual(
          await store.registerDeployment({ name: "none", ...deployment }, 3000),
          { kind: "parent_not_found" },
          JSON.stringify(deployment),
        );
      }
      assert.equal(await store.getDeployment("none"), null);
      assert.deepEqual(
        (await store.listUnits("workspace", [organization.id])).map(({ id }) => id).sort(),
        [workspace.id, w2.id].sort(),
      );
      // The workspace is deleted, and its project with it.
      await store.deleteUnit("workspace", w2.id, 4000);
      assert.equal((await store.registerDeployment({ name: "d", project: uuid(3) }, 4000)).kind, "parent_not_found");
      assert.equal((await store.registerDeployment({ name: "d", workspace: w2.id }, 4000)).kind, "parent_not_found");
    });

    test("create no new default in place of a renamed one", async (store) => {
      const { organization, workspace, project } = await store.ensureDefaults(1000);
      await store.renameUnit("workspace", workspace.id, "First");
      await store.renameUnit("project", project.id, "Main");
      const w2 = await createWorkspace(store, "w2");
      for (const deployment of [{}, { workspace: "First" }, { workspace: "w2" }, { project: "Bots" }]) {
        const outcome = await store.registerDeployment(
          { name: `in ${JSON.stringify(deployment)}`, ...deployment },
          3000,
        );
        const expectedId = deployment.workspace === "w2" ? w2.id : workspace.id;
        assert.equal(outcome.kind === "made" && outcome.row.workspace_id, expectedId);
      }
      assert.deepEqual(
        (await store.listUnits("workspace", [organization.id])).map(({ id }) => id).sort(),
        [workspace.id, "w2"].sort(),
      );
      assert.deepEqual(
        (await store.listUnits("project", [workspace.id])).map(({ name }) => name),
        ["Bots", "Main"],
      );
    });

    test("keep owner and sharing until they are changed", async (store) => {
      for (const id of ["u1", "u2"]) await store.createUser(createUserRow(id));
      const placed = await store.registerDeployment({ name: "d", owner_user_id: "u1", shared: true }, 1000);
      assert.ok(placed.kind === "made");
      assert.deepEqual([placed.row.owner_user_id, placed.row.shared], ["u1", true]);
      assert.deepEqual(await store.registerDeployment({ name: "d", owner_user_id: "u2", shared: false }, 2000), placed);
      assert.deepEqual(await store.updateDeployment("d", { shared: false }), { ...placed.row, shared: false });
      assert.deepEqual(await store.updateDeployment("d", { owner_user_id: "u2" }), {
        ...placed.row,
        shared: false,
        owner_user_id: "u2",
      });
      assert.equal(await store.updateDeployment("d", { owner_user_id: "u9" }), null);
      assert.equal((await store.updateDeployment("d", { owner_user_id: null }))?.owner_user_id, null);
      assert.equal(await store.updateDeployment("e", { shared: true }), null);
    });
  });

  api.describe("API keys", () => {
    test("are returned with the workspaces that they reach now", async (store) => {
      const { organization, workspace, project } = await store.ensureDefaults(1000);
      assert.equal((await store.listKeys({ limit: 1 })).length > 0, false);
      const w2 = await createWorkspace(store, "w2");
      const p2 = { id: "p2", workspace_id: "w2", name: "P2", created_at: 2000, deleted_at: null };
      await store.createUnit("project", p2);
      const key = createKeyRow(organization.id, { description: "of a test", expires_at: 5000 });
      const memberships: MembershipRow[] = [
        { subject_id: "key", scope_id: organization.id, permissions: ["organization:read"] },
        { subject_id: "key", scope_id: "w2", permissions: ["runs:read", "feedback:read"] },
      ];
      assert.deepEqual(await store.createKey(key, memberships), { kind: "made" });
      assert.equal((await store.listKeys({ limit: 1 })).length > 0, true);
      const grants = await store.findKey("hash of key");
      assert.deepEqual(grants?.key, key);
      assert.deepEqual(byScope(grants?.memberships), byScope(memberships));
      assert.deepEqual(grants?.workspaces, [workspace, w2]);
      assert.deepEqual(grants?.projects, [project, p2]);
      assert.equal(await store.findKey("hash of nothing"), null);
      assert.deepEqual(await store.listKeys({ organization_id: organization.id }), [key]);
      assert.deepEqual(await store.listKeys({ organization_id: "other" }), []);

      await store.deleteUnit("project", "p2", 3000);
      assert.deepEqual((await store.findKey("hash of key"))?.projects, [project]);
      await store.deleteUnit("workspace", "w2", 3000);
      assert.deepEqual((await store.findKey("hash of key"))?.workspaces, [workspace]);
    });

    test("reject an existing short form and unknown parents, and write nothing", async (store) => {
      const { organization } = await store.ensureDefaults(1000);
      await createWorkspace(store, "gone");
      await store.deleteUnit("workspace", "gone", 2000);
      const first = createKeyRow(organization.id);
      assert.deepEqual(await store.createKey(first, []), { kind: "made" });
      const second = { ...createKeyRow(organization.id, { id: "k2" }), short_key: first.short_key };
      const outcomes: [ApiKeyRow, string | null, string][] = [
        [second, null, "short_key_taken"],
        [createKeyRow("other", { id: "k2" }), null, "parent_not_found"],
        [createKeyRow(organization.id, { id: "k2", kind: "pt", user_id: "nobody" }), null, "parent_not_found"],
        [createKeyRow(organization.id, { id: "k2" }), "nowhere", "parent_not_found"],
        [createKeyRow(organization.id, { id: "k2" }), "gone", "parent_not_found"],
      ];
      for (const [key, scope_id, kind] of outcomes) {
        const granted = [
          { subject_id: "k2", scope_id: scope_id ?? organization.id, permissions: ["runs:read" as const] },
        ];
        assert.deepEqual(await store.createKey(key, granted), { kind });
      }
      assert.deepEqual(await store.listKeys({ organization_id: organization.id }), [first]);
      assert.deepEqual(await store.listMemberships("k2"), []);
      assert.equal(await store.findKey("hash of k2"), null);
    });

    test("have one short form each, also if several are created concurrently", async (store) => {
      const { organization } = await store.ensureDefaults(1000);
      const keys = times(6, (i) => ({ ...createKeyRow(organization.id, { id: `k${i}` }), short_key: "gr_sk_...same" }));
      const kinds = await Promise.all(keys.map(async (key) => (await store.createKey(key, [])).kind));
      assert.deepEqual(kinds.sort(), ["made", ...times(5, () => "short_key_taken")]);
      assert.equal((await store.listKeys({ organization_id: organization.id })).length, 1);
    });

    test("are revoked by id or short form, once", async (store) => {
      const { organization } = await store.ensureDefaults(1000);
      for (const id of ["k1", "k2"]) await store.createKey(createKeyRow(organization.id, { id }), []);
      assert.equal((await store.revokeKey(organization.id, "k1", 3000))?.revoked_at, 3000);
      assert.equal((await store.revokeKey(organization.id, "gr_sk_...k2", 3000))?.id, "k2");
      assert.equal((await store.revokeKey(organization.id, "k1", 4000))?.revoked_at, 3000);
      assert.equal(await store.revokeKey(organization.id, "k3", 4000), null);
      assert.equal(await store.revokeKey("other", "k1", 4000), null);
      assert.equal((await store.findKey("hash of k1"))?.key.revoked_at, 3000);
    });

    test("store their last use at most once a minute", async (store) => {
      const { organization } = await store.ensureDefaults(1000);
      await store.createKey(createKeyRow(organization.id), []);
      const used = async (now: number): Promise<number | null | undefined> => {
        await store.touchKey("key", now);
        return (await store.findKey("hash of key"))?.key.last_used_at;
      };
      assert.equal(await used(100_000), 100_000);
      assert.equal(await used(159_999), 100_000);
      assert.equal(await used(160_000), 160_000);
      await store.touchKey("nothing", 1000);
    });

    test("of a user have the user's memberships, and end with the user", async (store) => {
      const { organization } = await store.ensureDefaults(1000);
      await store.createUser(createUserRow("u1"));
      const key = createKeyRow(organization.id, { kind: "pt", user_id: "u1" });
      assert.deepEqual(await store.createKey(key, []), { kind: "made" });
      const membership: MembershipRow = { subject_id: "u1", scope_id: organization.id, permissions: ["runs:read"] };
      await store.setMembership(membership);
      assert.deepEqual((await store.findKey("hash of key"))?.memberships, [membership]);
      assert.equal((await store.deleteUser("u1", 3000))?.deleted_at, 3000);
      assert.equal(await store.findKey("hash of key"), null);
      assert.equal((await store.listKeys({ organization_id: organization.id }))[0]?.revoked_at, 3000);
      assert.deepEqual(await store.listMemberships("u1"), []);
      const late = { ...createKeyRow(organization.id, { id: "late" }), kind: "pt" as const, user_id: "u1" };
      assert.deepEqual(await store.createKey(late, []), { kind: "parent_not_found" });
    });
  });

  api.describe("workspaces and projects", () => {
    test("have unique names, except for deleted rows", async (store) => {
      const { organization, workspace } = await store.ensureDefaults(1000);
      const w2 = await createWorkspace(store, "w2");
      assert.equal((await store.createUnit("workspace", { ...w2, id: "w3" })).kind, "name_taken");
      assert.equal(
        (await store.createUnit("workspace", { ...w2, id: "w3", organization_id: "x" })).kind,
        "parent_not_found",
      );
      assert.equal((await store.renameUnit("workspace", "w2", "Default")).kind, "name_taken");
      assert.equal((await store.renameUnit("workspace", "w9", "Other")).kind, "not_found");
      assert.deepEqual(await store.renameUnit("workspace", "w2", w2.name), { kind: "made", row: w2 });
      assert.deepEqual(await store.renameUnit("workspace", "w2", "a"), { kind: "made", row: { ...w2, name: "a" } });
      assert.deepEqual(
        (await store.listUnits("workspace", [organization.id])).map(({ name }) => name),
        ["Default", "a"],
      );
      assert.equal((await store.deleteUnit("workspace", "w2", 3000))?.name, "a");
      assert.equal(await store.deleteUnit("workspace", "w2", 4000), null);
      assert.equal((await store.renameUnit("workspace", "w2", "b")).kind, "not_found");
      assert.equal((await store.renameUnit("workspace", workspace.id, "a")).kind, "made");
      assert.deepEqual(await store.listUnits("workspace", ["other"]), []);
    });

    test("are created once by concurrent requests", async (store) => {
      const { organization } = await store.ensureDefaults(1000);
      const row = { organization_id: organization.id, name: "One", created_at: 2000, deleted_at: null };
      const kinds = await Promise.all(
        times(5, async (i) => (await store.createUnit("workspace", { ...row, id: `w${i}` })).kind),
      );
      assert.deepEqual(kinds.sort(), ["made", ...times(4, () => "name_taken")]);
    });

    test("hold projects, which are deleted with their workspace", async (store) => {
      const { workspace, project } = await store.ensureDefaults(1000);
      await createWorkspace(store, "w2");
      const row = { id: "p1", workspace_id: "w2", name: "Default", created_at: 2000, deleted_at: null };
      assert.deepEqual(await store.createUnit("project", row), { kind: "made", row });
      assert.equal((await store.createUnit("project", { ...row, id: "p2" })).kind, "name_taken");
      assert.equal(
        (await store.createUnit("project", { ...row, id: "p2", workspace_id: "w9" })).kind,
        "parent_not_found",
      );
      await store.createUnit("project", { ...row, id: "p2", name: "A" });
      assert.equal((await store.renameUnit("project", "p2", "Default")).kind, "name_taken");
      assert.equal((await store.renameUnit("project", "p9", "B")).kind, "not_found");
      assert.deepEqual(await store.renameUnit("project", "p2", "B"), {
        kind: "made",
        row: { ...row, id: "p2", name: "B" },
      });
      const names = async (...ids: string[]): Promise<string[]> =>
        (await store.listUnits("project", ids)).map(
          ({ name, workspace_id }) => `${workspace_id === "w2" ? 2 : 1} ${name}`,
        );
      assert.deepEqual((await names("w2", workspace.id)).sort(), ["1 Default", "2 B", "2 Default"]);
      assert.equal((await store.deleteUnit("project", "p1", 3000))?.deleted_at, 3000);
      assert.equal(await store.deleteUnit("project", "p1", 3000), null);
      assert.deepEqual(await names("w2"), ["2 B"]);
      await store.deleteUnit("workspace", "w2", 4000);
      assert.deepEqual(await names("w2", workspace.id), ["1 Default"]);
      assert.equal((await store.createUnit("project", { ...row, id: "p3" })).kind, "parent_not_found");
      assert.deepEqual(await store.listUnits("project", []), []);
      assert.deepEqual(await store.listUnits("project", [workspace.id]), [project]);
    });
  });

  api.describe("users and memberships", () => {
    test("are found by id and email", async (store) => {
      const ada = createUserRow("u1", { name: "Ada" });
      assert.deepEqual(await store.createUser(ada), { kind: "made", row: ada });
      assert.equal((await store.createUser({ ...ada, id: "u2" })).kind, "name_taken");
      for (const id of ["n1", "n2"])
        assert.equal((await store.createUser(createUserRow(id, { email: null }))).kind, "made");
      assert.deepEqual(await store.getUser("u1"), ada);
      assert.deepEqual(await store.getUser("u1@example.com"), ada);
      assert.equal(await store.getUser("u9"), null);
      assert.deepEqual(await store.deleteUser("u1", 3000), { ...ada, deleted_at: 3000 });
      assert.equal(await store.deleteUser("u1", 4000), null);
      assert.equal(await store.getUser("u1"), null);
      assert.equal(await store.getUser("u1@example.com"), null);
      assert.equal((await store.createUser({ ...ada, id: "u2" })).kind, "made");
    });

    test("have permissions by their role", async (store) => {
      const { organization } = await store.ensureDefaults(1000);
      await createWorkspace(store, "w2");
      for (const id of ["u2", "u1", "u3"]) await store.createUser(createUserRow(id));
      await store.createUser(createUserRow("u0", { email: null }));
      assert.deepEqual(await store.listUsers(organization.id), []);
      const on = (subject_id: string, scope_id: string, ...permissions: MembershipRow["permissions"]) =>
        store.setMembership({ subject_id, scope_id, permissions });
      await on("u2", organization.id, "organization:read");
      await on("u1", "w2", "runs:read");
      await on("u0", "w2", "runs:read");
      await on("u3", "elsewhere", "runs:read");
      const members = async (): Promise<string[]> => (await store.listUsers(organization.id)).map(({ id }) => id);
      assert.deepEqual(await members(), ["u1", "u2", "u0"]);
      assert.deepEqual(await store.listUsers("other"), []);
      await on("u1", "w2", "runs:read", "runs:create");
      assert.deepEqual(await store.listMemberships("u1"), [
        { subject_id: "u1", scope_id: "w2", permissions: ["runs:read", "runs:create"] },
      ]);
      await on("u1", "w2");
      assert.deepEqual(await store.listMemberships("u1"), []);
      assert.deepEqual(await members(), ["u2", "u0"]);
      await store.deleteUser("u2", 3000);
      assert.deepEqual(await members(), ["u0"]);
    });

    test("keep the last names of deleted rows", async (store) => {
      const { project } = await store.ensureDefaults(1000);
      await createWorkspace(store, "w2");
      await store.renameUnit("workspace", "w2", "=SUM(A1:A9)");
      await store.deleteUnit("workspace", "w2", 3000);
      await store.createUser(createUserRow("u1"));
      await store.deleteUser("u1", 3000);
      await store.createUser(createUserRow("u2", { email: null }));
      const names = await store.readNames({
        workspaces: ["w2", "w9"],
        projects: [project.id, project.id],
        users: ["u1", "u2", "u9"],
      });
      assert.deepEqual([...names.workspaces], [["w2", "=SUM(A1:A9)"]]);
      assert.deepEqual([...names.projects], [[project.id, "Default"]]);
      assert.deepEqual([...names.users].sort(), [
        ["u1", "u1@example.com"],
        ["u2", null],
      ]);
      const none = await store.readNames({});
      assert.deepEqual([none.workspaces.size, none.projects.size, none.users.size], [0, 0, 0]);
    });

    test("are found or created for users of custom authentication, one in a workspace", async (store) => {
      const [first, second] = [await createWorkspace(store, uuid(1)), await createWorkspace(store, uuid(2))];
      const ann = { workspace_id: first.id, identity: "ann" };
      const ids = await Promise.all(times(5, (i) => store.ensureUser(ann, 2000 + i)));
      assert.deepEqual(new Set(ids), new Set([ids[0]]));
      const id = ids[0] as string;
      const otherKeys = [
        await store.ensureUser({ ...ann, identity: "Ann" }, 2000),
        await store.ensureUser({ ...ann, identity: "" }, 2000),
        await store.ensureUser({ ...ann, workspace_id: second.id }, 2000),
      ];
      assert.equal(new Set([id, ...otherKeys]).size, 4);
      const emails = async (): Promise<unknown> => {
        const { users } = await store.readNames({ users: [id, otherKeys[0] as string] });
        return [users.get(id), users.get(otherKeys[0] as string)];
      };
      assert.deepEqual(await emails(), [null, null]);
      assert.equal(await store.ensureUser({ ...ann, email: "ann@example.com" }, 3000), id);
      assert.equal(await store.ensureUser(ann, 3000), id);
      await store.ensureUser({ ...ann, identity: "Ann", email: "ann@example.com" }, 3000);
      assert.deepEqual(await emails(), ["ann@example.com", null], "an email is one user's");
      await store.ensureUser({ ...ann, email: "new@example.com" }, 3000);
      await store.ensureUser({ ...ann, identity: "Ann", email: "ann@example.com" }, 3000);
      assert.deepEqual(await emails(), ["new@example.com", "ann@example.com"]);

      assert.equal((await store.getUser("new@example.com"))?.id, id);
      assert.deepEqual(await store.listUsers(first.organization_id), [], "they are no members");
      assert.equal((await store.deleteUser(id, 4000))?.id, id);
      const anew = await store.ensureUser({ ...ann, email: "new@example.com" }, 5000);
      assert.ok(anew !== id && (await store.getUser(anew))?.email === "new@example.com");
    });
  });
}

const byScope = (memberships: readonly MembershipRow[] = []): MembershipRow[] =>
  [...memberships].sort((a, b) => (a.scope_id < b.scope_id ? -1 : 1));
