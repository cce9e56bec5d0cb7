/** Holds the rows of the static identity store, with lookups for its verbs. */
import type {
  ApiKeyRow,
  DeploymentRow,
  MembershipRow,
  OrganizationRow,
  ProjectRow,
  UserRow,
  WorkspaceRow,
} from "../storage/identity.ts";

interface Deletable {
  readonly id: string;
  readonly deleted_at: number | null;
}

/** `named*` and `oldest*` create a missing row. `live` and `alive` skip deleted rows. */
export interface Tables {
  readonly organization: OrganizationRow;
  readonly workspaces: Map<string, WorkspaceRow>;
  readonly projects: Map<string, ProjectRow>;
  readonly users: Map<string, UserRow>;
  readonly keys: Map<string, ApiKeyRow>;
  readonly deployments: Map<string, Omit<DeploymentRow, "workspace_id" | "organization_id">>;
  readonly memberships: Map<string, MembershipRow>;
  readonly identities: Map<string, string>;
  put<Row extends { readonly id: string }>(rows: Map<string, Row>, row: Row): Row;
  grant(membership: MembershipRow): void;
  live<Row extends Deletable>(rows: Map<string, Row>): Row[];
  alive<Row extends Deletable>(rows: Map<string, Row>, id: string | null): Row | undefined;
  end<Row extends Deletable>(rows: Map<string, Row>, id: string, now: number): Row | null;
  addWorkspace(id: string, name: string, created_at: number): WorkspaceRow;
  addProject(id: string, workspace_id: string, name: string, created_at: number): ProjectRow;
  projectsIn(workspace_id: string): ProjectRow[];
  namedWorkspace(name: string, now: number): Promise<WorkspaceRow>;
  namedProject(workspace_id: string, name: string, now: number): Promise<ProjectRow>;
  oldestWorkspace(now: number): Promise<WorkspaceRow>;
  oldestProject(workspace_id: string, now: number): Promise<ProjectRow>;
}

export function createTables(organization: OrganizationRow): Tables {
  const workspaces = new Map<string, WorkspaceRow>();
  const projects = new Map<string, ProjectRow>();
  const users = new Map<string, UserRow>();
  const keys = new Map<string, ApiKeyRow>();
  const deployments = new Map<string, Omit<DeploymentRow, "workspace_id" | "organization_id">>();
  const memberships = new Map<string, MembershipRow>();
  /** User ids of custom users, by workspace and identity. */
  const identities = new Map<string, string>();

  const put = <Row extends { readonly id: string }>(rows: Map<string, Row>, row: Row): Row => {
    rows.set(row.id, row);
    return row;
  };
  const grant = (membership: MembershipRow): void => {
    const key = JSON.stringify([membership.subject_id, membership.scope_id]);
    if (membership.permissions.length > 0) memberships.set(key, membership);
    else memberships.delete(key);
  };
  const live = <Row extends { readonly deleted_at: number | null }>(rows: Map<string, Row>): Row[] =>
    [...rows.values()].filter((row) => row.deleted_at === null);
  const alive = <Row extends { readonly deleted_at: number | null }>(
    rows: Map<string, Row>,
    id: string | null,
  ): Row | undefined => {
    const row = id === null ? undefined : rows.get(id);
    return row?.deleted_at === null ? row : undefined;
  };
  /** Marks the row as deleted. */
  const end = <Row extends { readonly id: string; readonly deleted_at: number | null }>(
    rows: Map<string, Row>,
    id: string,
    now: number,
  ): Row | null => {
    const row = alive(rows, id);
    return row ? put(rows, { ...row, deleted_at: now }) : null;
  };

  const addWorkspace = (id: string, name: string, created_at: number): WorkspaceRow =>
    put(workspaces, { id, organization_id: organization.id, name, created_at, deleted_at: null });
  const addProject = (id: string, workspace_id: string, name: string, created_at: number): ProjectRow =>
    put(projects, { id, workspace_id, name, created_at, deleted_at: null });

  function projectsIn(workspace_id: string): ProjectRow[] {
    return live(projects).filter((project) => project.workspace_id === workspace_id);
  }

  // Both search again after the await: another call may have created the row.
  async function namedWorkspace(name: string, now: number): Promise<WorkspaceRow> {
    const find = (): WorkspaceRow | undefined => live(workspaces).find((row) => row.name === name);
    return (
      find() ??
      freshId("workspace", organization.id, name, workspaces).then((id) => find() ?? addWorkspace(id, name, now))
    );
  }
  async function namedProject(workspace_id: string, name: string, now: number): Promise<ProjectRow> {
    const find = (): ProjectRow | undefined => projectsIn(workspace_id).find((row) => row.name === name);
    return (
      find() ??
      freshId("project", workspace_id, name, projects).then((id) => find() ?? addProject(id, workspace_id, name, now))
    );
  }
  async function oldestWorkspace(now: number): Promise<WorkspaceRow> {
    return live(workspaces)[0] ?? namedWorkspace("Default", now);
  }
  async function oldestProject(workspace_id: string, now: number): Promise<ProjectRow> {
    return projectsIn(workspace_id)[0] ?? namedProject(workspace_id, "Default", now);
  }

  return {
    organization,
    workspaces,
    projects,
    users,
    keys,
    deployments,
    memberships,
    identities,
    put,
    grant,
    live,
    alive,
    end,
    addWorkspace,
    addProject,
    projectsIn,
    namedWorkspace,
    namedProject,
    oldestWorkspace,
    oldestProject,
  };
}

/** A UUID derived from kind, parent and name; `time` distinguishes rows that were deleted and created again. */
export async function derivedId(kind: string, parent: string, name: string, time = 0): Promise<string> {
  const bytes = new TextEncoder().encode(JSON.stringify([kind, parent, name, time]));
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  const hex = Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

/** The first derived id that no row has. */
export async function freshId(
  kind: string,
  parent: string,
  name: string,
  rows: ReadonlyMap<string, unknown>,
): Promise<string> {
  for (let time = 0; ; time++) {
    const id = await derivedId(kind, parent, name, time);
    if (!rows.has(id)) return id;
  }
}
