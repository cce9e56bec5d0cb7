/** Validates account requests and makes their errors. */
import { ServiceError } from "../errors.ts";
import { type IdentityWriteResult, type KeyKind, PERMISSIONS, type Permission, UUID } from "../storage/identity.ts";
import { isLongerThan, isName, MAX_NAME_CHARS } from "../validation.ts";
import { isOrganizationPermission } from "./keys.ts";

/** Values of a new API key. */
export interface KeyCreate {
  /** Default: the oldest organization. */
  readonly organization_id?: string;
  /** `sk`: a service key, without a user. `pt`: a personal token. */
  readonly kind: KeyKind;
  /** `pt` only, required: id or email of the user. The token has the user's permissions. */
  readonly user?: string;
  /** `sk` only: ids or names of the key's workspaces. Default: all of the organization, including later ones. */
  readonly workspaces?: readonly string[];
  /** `sk` only. Default: all except `organization:manage`. */
  readonly permissions?: readonly Permission[];
  /** Milliseconds since 1970, later than now. Default: it does not expire. */
  readonly expires_at?: number;
  readonly description?: string;
}

/** The largest time a JavaScript Date can hold, in milliseconds. */
const MAX_TIME_MS = 8.64e15;

export const notFoundRowError = (kindLabel: string, name: string): ServiceError =>
  new ServiceError("not_found", `${kindLabel} ${name} not found`);

/** Returns the row. Throws `not_found` with its kind and name if there is none. */
export function requireRow<Row>(row: Row | null | undefined, kindLabel: string, name: string): Row {
  if (row) return row;
  throw notFoundRowError(kindLabel, name);
}

/** Returns a creation time later than that of all rows: the oldest row is the default one and must stay the oldest. */
export const nextCreationTime = (rows: readonly { readonly created_at: number }[], now: number): number =>
  Math.max(now, ...rows.map(({ created_at }) => created_at + 1));

/** Returns the written row. Throws `already_exists` for a taken name, and `not_found` that names the parent. */
export function requireWrittenRow<Row>(
  result: IdentityWriteResult<Row>,
  kindLabel: string,
  name: string,
  parentLabel: string,
): Row {
  if (result.kind === "made") return result.row;
  if (result.kind === "name_taken") throw new ServiceError("already_exists", `${kindLabel} ${name} already exists`);
  throw new ServiceError("not_found", `${parentLabel} not found`);
}

export const findByIdOrName = <Row extends { readonly id: string; readonly name: string }>(
  rows: readonly Row[],
  name: string,
): Row | undefined => rows.find(({ id }) => id === name.toLowerCase()) ?? rows.find((row) => row.name === name);

/** Throws `invalid` for a name that is empty, too long, has white space at its ends, or looks like an id. */
export function validateName(kindLabel: string, name: string): void {
  if (!isName(name)) {
    throw new ServiceError(
      "invalid",
      `${kindLabel} name ${JSON.stringify(name.slice(0, 80))}: use 1 to ${MAX_NAME_CHARS} characters without white space at the ends`,
    );
  }
  // Rows are found by id or name, so a name that looks like an id is ambiguous.
  if (UUID.test(name))
    throw new ServiceError("invalid", `${kindLabel} name ${name}: looks like an id; choose another name`);
}

/**
 * Returns the permissions without repetitions, in the fixed order. Throws `invalid` for an unknown one, and for none unless
 * `allowEmpty`.
 */
export function parsePermissions(permissions: readonly string[], allowEmpty = false): readonly Permission[] {
  const names: readonly string[] = PERMISSIONS;
  const unknownPermissions = permissions.filter((permission) => !names.includes(permission));
  if (unknownPermissions.length > 0) {
    throw new ServiceError(
      "invalid",
      `permissions: unknown permission ${unknownPermissions.join(", ")}; use ${PERMISSIONS.join(", ")}`,
    );
  }
  if (permissions.length === 0 && !allowEmpty) throw new ServiceError("invalid", "permissions: must not be empty");
  return PERMISSIONS.filter((permission) => permissions.includes(permission));
}

/** Throws `invalid` if one of the permissions can be granted only on the organization. */
export function refuseOrganizationPermissions(permissions: readonly Permission[]): void {
  const organizationPermissions = permissions.filter(isOrganizationPermission);
  if (organizationPermissions.length > 0) {
    throw new ServiceError(
      "invalid",
      `permissions: ${organizationPermissions.join(", ")} can be granted only on the organization`,
    );
  }
}

/** Returns the problems of members that a key of this kind must or must not have; empty if there are none. */
function findKindProblems({ kind, user, workspaces, permissions }: Partial<KeyCreate>): string[] {
  if (kind === "sk") return user === undefined ? [] : ["user: a service key has none"];
  if (kind !== "pt") return [`kind: ${JSON.stringify(kind)} must be pt or sk`];
  return [
    ...(user === undefined ? ["user: a personal token needs one"] : []),
    ...(workspaces === undefined ? [] : ["workspaces: a personal token has those of its user"]),
    ...(permissions === undefined ? [] : ["permissions: a personal token has those of its user"]),
  ];
}

/** Returns why the time is no future time; empty if it is one. */
function findExpiryProblems(expires_at: number, now: number): string[] {
  if (!Number.isInteger(expires_at) || expires_at > MAX_TIME_MS)
    return ["expires_at: must be whole milliseconds since 1970"];
  if (expires_at > now) return [];
  return [`expires_at: ${new Date(Math.max(expires_at, -MAX_TIME_MS)).toISOString()} is not in the future`];
}

/** Throws `invalid` with every problem of a request for a key. */
export function validateKeyRequest(
  { kind, user, workspaces, permissions, expires_at, description }: KeyCreate,
  now: number,
): void {
  const problems = findKindProblems({ kind, user, workspaces, permissions });
  if (workspaces?.length === 0) problems.push("workspaces: must not be empty");
  if (expires_at !== undefined) problems.push(...findExpiryProblems(expires_at, now));
  if (description !== undefined && !(description.isWellFormed() && !isLongerThan(description, MAX_NAME_CHARS))) {
    problems.push(`description: must have at most ${MAX_NAME_CHARS} characters`);
  }
  if (problems.length > 0) throw new ServiceError("invalid", problems.join("; "));
}
