/** Deployments, and the default organization, workspace and project. */
import { type DeploymentRow, type IdentityStore, idOf, UUID } from "../../lib/storage/identity.ts";
import type { SqlRow } from "./driver.ts";
import { type Database, prepared, readAll, readOne, type Statement, statement } from "./statement.ts";
import { type RawBuilder, sql } from "./template.ts";

type Verbs = Pick<
  IdentityStore,
  "ensureDefaults" | "placeDeployment" | "getDeployment" | "updateDeployment" | "listDeployments"
>;

type Defaults = Awaited<ReturnType<IdentityStore["ensureDefaults"]>>;
type Placement = Parameters<IdentityStore["placeDeployment"]>[0];
/** An id or null. */
type Id = RawBuilder<string | null>;

const oldestOrganization: Id = sql`(select id from organizations order by created_at, id limit 1)`;

const oldestWorkspace: Id = sql`(select id from workspaces where organization_id = ${oldestOrganization}
  and deleted_at is null order by created_at, id limit 1)`;

const getDefaults = prepared<Record<string, never>>(
  () =>
    sql`select o.id as organization_id, o.name as organization_name, o.created_at as organization_created,
      w.id as workspace_id, w.name as workspace_name, w.created_at as workspace_created,
      p.id, p.name, p.created_at
    from organizations o join workspaces w on w.organization_id = o.id join projects p on p.workspace_id = w.id
    where o.id = ${oldestOrganization} and w.id = ${oldestWorkspace} and p.deleted_at is null
    order by p.created_at, p.id limit 1`,
);

const places = sql`select d.name, d.project_id, p.workspace_id, w.organization_id, d.owner_user_id, d.shared
  from deployments d join projects p on p.id = d.project_id join workspaces w on w.id = p.workspace_id`;

const getDeployment = prepared<{ name: string }>((p) => sql`${places} where d.name = ${p.name}`);

const listDeployments = prepared<{ organization_id: string }>(
  (p) => sql`${places} where w.organization_id = ${p.organization_id} order by d.name`,
);

/** `owner` is used where `owned` is 1, and `shared` where `sharing` is 1. */
const updateDeployment = prepared<{
  name: string;
  owned: number;
  owner: string | null;
  sharing: number;
  shared: number;
}>(
  (p) =>
    sql`update deployments set
      owner_user_id = case when ${p.owned} = 1 then ${p.owner} else owner_user_id end,
      shared = case when ${p.sharing} = 1 then ${p.shared} else shared end
    where name = ${p.name}
      and (${p.owner} is null or exists (select 1 from users where id = ${p.owner} and deleted_at is null))
    returning name`,
);

/** The verbs on deployments and defaults. */
export function deploymentVerbs(driver: Database): Verbs {
  return {
    /**
     * @statements getDefaults · makeMissing
     * @guards read · insert organization, workspace and project where there is none · select.
     */
    async ensureDefaults(now) {
      const [there] = await driver.read(getDefaults({}));
      if (there) return toDefaults(there);
      const results = await driver.batch([
        ...makeMissing({
          now,
          allowed: sql`1 = 1`,
          workspace: oldestWorkspace,
          project: oldestProject(oldestWorkspace),
        }),
        getDefaults({}),
      ]);
      return toDefaults(results.at(-1)?.[0] as SqlRow);
    },

    /**
     * @statements placing
     * @guards insert missing workspace and project by name · upsert the deployment where project and owner exist ·
     *   select.
     */
    async placeDeployment(deployment, now) {
      const results = await driver.batch(placing(deployment, now));
      const row = results.at(-1)?.[0];
      return row ? { kind: "made", row: toDeployment(row) } : { kind: "parent_not_found" };
    },

    /** @statements getDeployment */
    getDeployment: (name) => readOne(driver, getDeployment({ name }), toDeployment),

    /**
     * @statements updateDeployment · getDeployment
     * @guards update where the owner exists · select.
     */
    async updateDeployment(name, { owner_user_id, shared }) {
      const [updated, [row] = []] = await driver.batch([
        updateDeployment({
          name,
          owned: owner_user_id === undefined ? 0 : 1,
          owner: owner_user_id ?? null,
          sharing: shared === undefined ? 0 : 1,
          shared: shared ? 1 : 0,
        }),
        getDeployment({ name }),
      ]);
      return updated?.length && row ? toDeployment(row) : null;
    },

    /** @statements listDeployments */
    listDeployments: (organization_id) => readAll(driver, listDeployments({ organization_id }), toDeployment),
  };
}

/** The last statement returns the deployment's row if it is where the caller wants it. Without a row, nothing was written. */
function placing(deployment: Placement, now: number): Statement[] {
  const { name, owner_user_id: owner = null } = deployment;
  const workspace = workspaceOf(deployment);
  const project = projectOf(deployment, workspace);
  const made = deployment.project !== undefined && UUID.test(deployment.project);
  const allowed = sql`(${owner} is null or exists (select 1 from deployments where name = ${name})
    or exists (select 1 from users where id = ${owner} and deleted_at is null))`;
  return [
    // A project named by its id exists already, so nothing is created for it.
    ...(made ? [] : makeMissing({ now, allowed, workspace, project, names: deployment })),
    statement(
      sql`insert into deployments (name, project_id, owner_user_id, shared)
        select ${name}, ${project}, ${owner}, ${deployment.shared ? 1 : 0}
        where ${project} is not null and ${allowed}
        on conflict (name) do update set project_id = excluded.project_id
          where deployments.project_id <> excluded.project_id`,
    ),
    statement(sql`${places} where d.name = ${name} and d.project_id = ${project}`),
  ];
}

/** The requested workspace: by id or name, else that of the project, else that of the deployment, else the oldest. */
function workspaceOf({ name, workspace, project }: Placement): Id {
  if (workspace !== undefined) {
    const id = idOf(workspace);
    return sql`(select id from workspaces where deleted_at is null
      and (id = ${id} or (name = ${workspace} and organization_id = ${oldestOrganization}))
      order by case when id = ${id} then 0 else 1 end limit 1)`;
  }
  const its =
    project === undefined
      ? sql`p.id = (select project_id from deployments where name = ${name})`
      : sql`p.id = ${idOf(project)}`;
  return sql`coalesce((select w.id from projects p join workspaces w on w.id = p.workspace_id
    where p.deleted_at is null and w.deleted_at is null and ${its}), ${oldestWorkspace})`;
}

/** The requested project of the workspace: by id or name, else that of the deployment, else the oldest. */
function projectOf({ name, project }: Placement, workspace: Id): Id {
  if (project === undefined)
    return oldestProject(workspace, sql`(select project_id from deployments where name = ${name})`);
  const id = idOf(project);
  return sql`(select id from projects where workspace_id = ${workspace} and deleted_at is null
    and (id = ${id} or name = ${project}) order by case when id = ${id} then 0 else 1 end limit 1)`;
}

function oldestProject(workspace: Id, rather: Id = sql`null`): Id {
  return sql`(select id from projects where workspace_id = ${workspace} and deleted_at is null
    order by case when id = ${rather} then 0 else 1 end, created_at, id limit 1)`;
}

/** Creates a missing organization, workspace or project, unless the caller names it by id. */
function makeMissing(terms: {
  readonly now: number;
  readonly allowed: RawBuilder<unknown>;
  readonly workspace: Id;
  readonly project: Id;
  readonly names?: Pick<Placement, "workspace" | "project">;
}): Statement[] {
  const { now, allowed, workspace, project, names = {} } = terms;
  if (names.workspace !== undefined && UUID.test(names.workspace)) {
    return [makeProject(now, allowed, workspace, project, names.project)];
  }
  return [
    statement(
      sql`insert into organizations (id, name, created_at) select ${crypto.randomUUID()}, 'Default', ${now}
        where not exists (select 1 from organizations) and ${allowed} on conflict do nothing`,
    ),
    statement(
      sql`insert into workspaces (id, organization_id, name, created_at, deleted_at)
        select ${crypto.randomUUID()}, ${oldestOrganization}, ${names.workspace ?? "Default"}, ${now}, null
        where ${workspace} is null and ${allowed} on conflict do nothing`,
    ),
    makeProject(now, allowed, workspace, project, names.project),
  ];
}

function makeProject(
  now: number,
  allowed: RawBuilder<unknown>,
  workspace: Id,
  project: Id,
  name = "Default",
): Statement {
  return statement(
    sql`insert into projects (id, workspace_id, name, created_at, deleted_at)
      select ${crypto.randomUUID()}, ${workspace}, ${name}, ${now}, null
      where ${workspace} is not null and ${project} is null and ${allowed} on conflict do nothing`,
  );
}

function toDefaults(row: SqlRow): Defaults {
  const organization_id = String(row.organization_id);
  const workspace_id = String(row.workspace_id);
  return {
    organization: {
      id: organization_id,
      name: String(row.organization_name),
      created_at: Number(row.organization_created),
    },
    workspace: {
      id: workspace_id,
      organization_id,
      name: String(row.workspace_name),
      created_at: Number(row.workspace_created),
      deleted_at: null,
    },
    project: {
      id: String(row.id),
      workspace_id,
      name: String(row.name),
      created_at: Number(row.created_at),
      deleted_at: null,
    },
  };
}

function toDeployment(row: SqlRow): DeploymentRow {
  return { ...(row as unknown as DeploymentRow), shared: row.shared === 1 };
}
