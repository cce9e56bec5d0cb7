/** Statements on deployments, and on the organization, workspace and project that they are in. */
import { type RawBuilder, sql } from "kysely";
import { bigint, type Operands, orNull, text } from "../parameters.ts";
import { createBuilder, insertWhere, query, shapedQuery } from "../query.ts";
import type { CoreTables } from "../schema/tables.ts";

const db = createBuilder<CoreTables>();

/** An id; null if there is no such row. */
type Id = RawBuilder<string>;

const oldestOrganization: Id = sql`(select id from organizations order by created_at, id limit 1)`;

const oldestWorkspace: Id = sql`(select id from workspaces where organization_id = ${oldestOrganization}
  and deleted_at is null order by created_at, id limit 1)`;

/** Selects the oldest project with its workspace and organization, each of which is the oldest. */
export const selectDefaults = query({}, () =>
  db
    .selectFrom("organizations as o")
    .innerJoin("workspaces as w", "w.organization_id", "o.id")
    .innerJoin("projects as p", "p.workspace_id", "w.id")
    .select([
      "o.id as organization_id",
      "o.name as organization_name",
      "o.created_at as organization_created",
      "w.id as workspace_id",
      "w.name as workspace_name",
      "w.created_at as workspace_created",
      "p.id",
      "p.name",
      "p.created_at",
    ])
    .where("o.id", "=", oldestOrganization)
    .where("w.id", "=", oldestWorkspace)
    .where("p.deleted_at", "is", null)
    .orderBy("p.created_at")
    .orderBy("p.id")
    .limit(sql.lit(1)),
);

/** Selects deployments with the ids of their project, workspace and organization. */
const selectPlaces = () =>
  db
    .selectFrom("deployments as d")
    .innerJoin("projects as p", "p.id", "d.project_id")
    .innerJoin("workspaces as w", "w.id", "p.workspace_id")
    .select(["d.name", "d.project_id", "p.workspace_id", "w.organization_id", "d.owner_user_id", "d.shared"]);

/** Selects a deployment with its workspace and organization. */
export const selectDeployment = query({ name: text }, (p) => selectPlaces().where("d.name", "=", p.name));

/** Selects the deployments of an organization in the order of their names. */
export const selectDeployments = query({ organization_id: text }, (p) =>
  selectPlaces().where("w.organization_id", "=", p.organization_id).orderBy("d.name"),
);

/**
 * Sets the owner of a deployment if `changes_owner` is 1, and whether it is shared if `changes_shared` is 1. Returns a row if the
 * deployment exists and the owner is a user or null.
 */
export const updateDeployment = query(
  { name: text, changes_owner: bigint, owner: orNull(text), changes_shared: bigint, shared: bigint },
  (p) =>
    db
      .updateTable("deployments")
      .set({
        owner_user_id: sql`case when ${p.changes_owner} = 1 then ${p.owner} else owner_user_id end`,
        shared: sql`case when ${p.changes_shared} = 1 then ${p.shared} else shared end`,
      })
      .where("name", "=", p.name)
      .where(
        sql<boolean>`(${p.owner} is null or exists (select 1 from users where id = ${p.owner} and deleted_at is null))`,
      )
      .returning("name"),
);

// -------------------------------------------------------------------- placing

/** True for each unit that the caller names. */
export interface PlacementShape {
  readonly workspace: boolean;
  readonly project: boolean;
}

/** `name` is null for the place of new deployments. `workspace` and `project` are names, also of what is created. */
const placementTypes = {
  name: orNull(text),
  workspace: text,
  workspace_id: text,
  project: text,
  project_id: text,
  owner: orNull(text),
};
/** `id` is that of a new row. */
const creationTypes = { ...placementTypes, id: text, now: bigint };

type Placement = Operands<{
  name: string | null;
  workspace: string;
  workspace_id: string;
  project: string;
  project_id: string;
  owner: string | null;
}>;

const shapes: readonly PlacementShape[] = [
  { workspace: false, project: false },
  { workspace: true, project: true },
];

const projectOfDeployment = ({ name }: Placement): Id => sql`(select project_id from deployments where name = ${name})`;

/**
 * Selects the id of a workspace. With a requested one: that with this id, else that with this name in the oldest organization; null
 * if there is none. Otherwise that of the requested project or, without one, of the deployment's project; the oldest workspace if
 * that is not found.
 */
function selectWorkspace(p: Placement, shape: PlacementShape): Id {
  if (shape.workspace) {
    return sql`(select id from workspaces where deleted_at is null
      and (id = ${p.workspace_id} or (name = ${p.workspace} and organization_id = ${oldestOrganization}))
      order by case when id = ${p.workspace_id} then 0 else 1 end limit 1)`;
  }
  return sql`coalesce((select w.id from projects p join workspaces w on w.id = p.workspace_id
    where p.deleted_at is null and w.deleted_at is null
      and p.id = ${shape.project ? p.project_id : projectOfDeployment(p)}), ${oldestWorkspace})`;
}

/** Selects the id of the requested project of the workspace: by id or name, else that of the deployment, else the oldest. */
function selectProject(p: Placement, shape: PlacementShape): Id {
  const ofWorkspace = sql`select id from projects where workspace_id = ${selectWorkspace(p, shape)} and deleted_at is null`;
  if (!shape.project) {
    return sql`(${ofWorkspace} order by case when id = ${projectOfDeployment(p)} then 0 else 1 end, created_at, id limit 1)`;
  }
  return sql`(${ofWorkspace} and (id = ${p.project_id} or name = ${p.project})
    order by case when id = ${p.project_id} then 0 else 1 end limit 1)`;
}

/** The deployment exists, or its owner is a user or null. */
const isAllowed = ({ name, owner }: Placement): RawBuilder<boolean> =>
  sql<boolean>`(${owner} is null or exists (select 1 from deployments where name = ${name})
    or exists (select 1 from users where id = ${owner} and deleted_at is null))`;

/** Inserts an organization if there is none. */
export const insertMissingOrganization = query(creationTypes, (p) =>
  insertWhere(
    db,
    "organizations",
    { id: p.id, name: sql`'Default'`, created_at: p.now },
    sql`not exists (select 1 from organizations) and ${isAllowed(p)}`,
  ).onConflict((conflict) => conflict.doNothing()),
);

/** Inserts the requested workspace if it does not exist. */
export const insertMissingWorkspace = shapedQuery(
  (_: PlacementShape) => creationTypes,
  (p, shape) =>
    insertWhere(
      db,
      "workspaces",
      { id: p.id, organization_id: oldestOrganization, name: p.workspace, created_at: p.now },
      sql`${selectWorkspace(p, shape)} is null and ${isAllowed(p)}`,
    ).onConflict((conflict) => conflict.doNothing()),
  { shapes },
);

/** Inserts the requested project if it does not exist and its workspace does. */
export const insertMissingProject = shapedQuery(
  (_: PlacementShape) => creationTypes,
  (p, shape) =>
    insertWhere(
      db,
      "projects",
      { id: p.id, workspace_id: selectWorkspace(p, shape), name: p.project, created_at: p.now },
      sql`${selectWorkspace(p, shape)} is not null and ${selectProject(p, shape)} is null and ${isAllowed(p)}`,
    ).onConflict((conflict) => conflict.doNothing()),
  { shapes },
);

/** Inserts a deployment in the requested project, or moves it there. `owner` and `shared` count only for a new deployment. */
export const upsertDeployment = shapedQuery(
  (_: PlacementShape) => ({ ...placementTypes, name: text, shared: bigint }),
  (p, shape) =>
    insertWhere(
      db,
      "deployments",
      { name: p.name, project_id: selectProject(p, shape), owner_user_id: p.owner, shared: p.shared },
      sql`${selectProject(p, shape)} is not null and ${isAllowed(p)}`,
    ).onConflict((conflict) =>
      conflict
        .column("name")
        .doUpdateSet({ project_id: sql`excluded.project_id` })
        .whereRef("deployments.project_id", "<>", sql`excluded.project_id`),
    ),
  { shapes },
);

/** Selects a deployment if it is in the requested project. */
export const selectPlacedDeployment = shapedQuery(
  (_: PlacementShape) => ({ ...placementTypes, name: text }),
  (p, shape) => selectPlaces().where("d.name", "=", p.name).where("d.project_id", "=", selectProject(p, shape)),
  { shapes },
);
