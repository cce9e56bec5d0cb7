/** Deployments, and the default organization, workspace and project. */
import { type DeploymentRow, type IdentityStore, normalizeId, UUID } from "../../lib/storage/identity.ts";
import { createRowFinder, type Database, readAll, readOne } from "./database.ts";
import type { RowOf, Statement } from "./query.ts";
import {
  insertMissingOrganization,
  insertMissingProject,
  insertMissingWorkspace,
  type PlacementShape,
  selectDefaults,
  selectDeployment,
  selectDeployments,
  selectPlacedDeployment,
  updateDeployment,
  upsertDeployment,
} from "./statements/deployments.ts";

type DeploymentStorage = Pick<
  IdentityStore,
  "ensureDefaults" | "registerDeployment" | "getDeployment" | "updateDeployment" | "listDeployments"
>;

type Defaults = Awaited<ReturnType<IdentityStore["ensureDefaults"]>>;
type Placement = Parameters<IdentityStore["registerDeployment"]>[0];

/** Creates the storage operations on deployments and defaults. */
export function createDeploymentStorage(driver: Database): DeploymentStorage {
  return {
    /**
     * Returns the default organization, workspace and project, the oldest of each, and creates those that are missing.
     * @statements selectDefaults · insertMissing
     * @guards read · insert organization, workspace and project where there is none · select.
     */
    async ensureDefaults(now) {
      const select = selectDefaults({});
      const existing = await readOne(driver, select, toDefaults);
      if (existing) return existing;
      const statements = [...insertMissing({ name: null }, now), select];
      const [row] = createRowFinder(statements, await driver.batch(statements))(select);
      if (!row) throw new Error("The default project is not in the database after it was inserted");
      return toDefaults(row);
    },

    /**
     * Creates the deployment, or moves it to the requested project. Creates a workspace and project that are named and missing;
     * owner and sharing of an existing deployment stay. Returns `parent_not_found`, and writes nothing, if the owner or a unit
     * named by its id does not exist.
     * @statements insertMissing · upsertDeployment · selectPlacedDeployment
     * @guards insert missing workspace and project by name · upsert the deployment where project and owner exist ·
     *   select. Without a row of the last statement, nothing was written.
     */
    async registerDeployment(deployment, now) {
      const { name, shared } = deployment;
      const { shape, args } = toPlacement(deployment);
      const select = selectPlacedDeployment(shape, { ...args, name });
      const upsert = upsertDeployment(shape, { ...args, name, shared: shared ? 1 : 0 });
      const statements = [...insertMissing(deployment, now), upsert, select];
      const [row] = createRowFinder(statements, await driver.batch(statements))(select);
      return row ? { kind: "made", row: toDeployment(row) } : { kind: "parent_not_found" };
    },

    /** @statements selectDeployment */
    getDeployment: (name) => readOne(driver, selectDeployment({ name }), toDeployment),

    /**
     * Changes owner or sharing; an undefined member stays as it is. Returns null if the deployment or the owner does not exist.
     * @statements updateDeployment · selectDeployment
     * @guards update where the owner exists · select.
     */
    async updateDeployment(name, { owner_user_id, shared }) {
      const [updated, [row]] = await driver.batch([
        updateDeployment({
          name,
          changes_owner: owner_user_id === undefined ? 0 : 1,
          owner: owner_user_id ?? null,
          changes_shared: shared === undefined ? 0 : 1,
          shared: shared ? 1 : 0,
        }),
        selectDeployment({ name }),
      ]);
      return updated.length > 0 && row ? toDeployment(row) : null;
    },

    /** @statements selectDeployments */
    listDeployments: (organization_id) => readAll(driver, selectDeployments({ organization_id }), toDeployment),
  };
}

type RequestedPlacement = Omit<Placement, "name" | "shared"> & { readonly name: string | null };

/**
 * Returns the shape and the arguments of the statements. A missing workspace or project has the name `Default`; each name also
 * stands as an id, for units that are named by their id.
 */
function toPlacement({ name, workspace, project, owner_user_id }: RequestedPlacement) {
  const shape: PlacementShape = { workspace: workspace !== undefined, project: project !== undefined };
  const args = {
    name,
    workspace: workspace ?? "Default",
    workspace_id: normalizeId(workspace ?? ""),
    project: project ?? "Default",
    project_id: normalizeId(project ?? ""),
    owner: owner_user_id ?? null,
  };
  return { shape, args };
}

const isId = (text: string | undefined): boolean => text !== undefined && UUID.test(text);

/**
 * Returns the statements that create a missing organization, workspace and project. Returns none for a project named by its id,
 * which must exist, and only that of the project for a workspace named by its id.
 */
function insertMissing(placement: RequestedPlacement, now: number): Statement<never>[] {
  const { shape, args } = toPlacement(placement);
  const creation = () => ({ ...args, id: crypto.randomUUID(), now });
  // A project named by its id exists already, so nothing is created for it.
  if (isId(placement.project)) return [];
  const insertProject = insertMissingProject(shape, creation());
  if (isId(placement.workspace)) return [insertProject];
  return [insertMissingOrganization(creation()), insertMissingWorkspace(shape, creation()), insertProject];
}

function toDefaults(row: RowOf<typeof selectDefaults>): Defaults {
  const { organization_id, workspace_id, id, name, created_at } = row;
  return {
    organization: { id: organization_id, name: row.organization_name, created_at: row.organization_created },
    workspace: {
      id: workspace_id,
      organization_id,
      name: row.workspace_name,
      created_at: row.workspace_created,
      deleted_at: null,
    },
    project: { id, workspace_id, name, created_at, deleted_at: null },
  };
}

const toDeployment = (row: RowOf<typeof selectDeployment>): DeploymentRow => ({ ...row, shared: row.shared === 1 });
