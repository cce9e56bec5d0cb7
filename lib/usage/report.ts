/** Usage reports: counts traces per time bucket, by workspace, project, user or API key. */
import { formatRfc3339 } from "../rfc3339.ts";
import type { EntityNames, IdentityStore } from "../storage/identity.ts";
import type { TraceUsage, UsageGroup, UsageStorage } from "../storage/mod.ts";

/** The width of the time buckets. One of the two members is 0. */
export interface Stride {
  readonly days: number;
  readonly hours: number;
}

/** Traces with `start_time <= t < end_time`, milliseconds since 1970, of these workspaces. Ids are in lower case. */
export interface UsageRequest {
  readonly start_time: number;
  readonly end_time: number;
  readonly workspace_ids: readonly string[];
  readonly group_by: UsageGroup;
  /** True to include tokens and cost. */
  readonly tokens?: boolean;
}

/** The members depend on the grouping. A null means that the trace has no such id, or the id has no known name. */
export type UsageDimensions =
  | { readonly workspace_id: string | null; readonly workspace_name: string | null }
  | { readonly project_id: string | null; readonly project_name: string | null }
  | { readonly user_id: string | null; readonly user_email: string | null }
  | { readonly api_key_short_key: string | null };

/** The traces of one bucket and one dimension, with their tokens and cost if requested. */
export interface UsageRecord extends Partial<TraceUsage> {
  /** The start of the bucket: RFC 3339 in UTC without a fraction. */
  readonly time_bucket: string;
  readonly dimensions: UsageDimensions;
  readonly traces: number;
}

/** Usage in time buckets. */
export interface UsageReport {
  readonly stride: Stride;
  /** Only buckets with traces, sorted by bucket, then by id or short key in code point order, null last. */
  readonly usage: readonly UsageRecord[];
  /** The request of this report. */
  readonly request: UsageRequest;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/**
 * Returns the bucket width for a range: an hour below a day, a day up to 31 days, 7 days up to 93, 30 days up to 366, else 365.
 * The times are in milliseconds.
 */
export function chooseStride(start: number, end: number): Stride {
  const range = end - start;
  if (range < DAY_MS) return { days: 0, hours: 1 };
  if (range <= 31 * DAY_MS) return { days: 1, hours: 0 };
  if (range <= 93 * DAY_MS) return { days: 7, hours: 0 };
  if (range <= 366 * DAY_MS) return { days: 30, hours: 0 };
  return { days: 365, hours: 0 };
}

export function toStrideMs({ days, hours }: Stride): number {
  return days * DAY_MS + hours * HOUR_MS;
}

const roundDown = (time: number, unit: number): number => Math.floor(time / unit) * unit;

/**
 * Counts usage by time and group, with the current names of the ids and with `tokens` also tokens and cost. Buckets start at
 * the full hour or day before `start_time`; those without usage are missing. Null ids have null names.
 */
export async function createUsageReport(
  storage: Pick<UsageStorage, "countUsage">,
  identity: Pick<IdentityStore, "readNames">,
  workspace_ids: readonly string[],
  request: UsageRequest,
): Promise<UsageReport> {
  const { start_time: start, end_time: end, group_by, tokens = false } = request;
  const stride = chooseStride(start, end);
  const stride_ms = toStrideMs(stride);
  const origin = roundDown(start, stride.hours > 0 ? HOUR_MS : DAY_MS);
  const rows = await storage.countUsage({ workspace_ids, start, end, origin, stride_ms, group_by, tokens });
  const ids = [...new Set(rows.map((row) => row.dimension).filter((id) => id !== null))];
  const toDimensions = await createDimensionLookup(identity, group_by, ids);
  const usage = rows.map(({ bucket, dimension, ...sums }) => ({
    time_bucket: formatRfc3339(origin + bucket * stride_ms),
    dimensions: toDimensions(dimension),
    ...sums,
  }));
  return { stride, usage, request };
}

/**
 * Reads the current names of the ids, and returns a function from id to dimensions; the name is null if the id is null or
 * unknown. API keys have no name.
 */
async function createDimensionLookup(
  identity: Pick<IdentityStore, "readNames">,
  group: UsageGroup,
  ids: readonly string[],
): Promise<(id: string | null) => UsageDimensions> {
  const readNames = async (query: Parameters<IdentityStore["readNames"]>[0]): Promise<EntityNames> =>
    ids.length > 0 ? await identity.readNames(query) : { workspaces: new Map(), projects: new Map(), users: new Map() };
  const findName = (byId: ReadonlyMap<string, string | null>, id: string | null): string | null =>
    id === null ? null : (byId.get(id) ?? null);
  switch (group) {
    case "workspace": {
      const { workspaces } = await readNames({ workspaces: ids });
      return (id) => ({ workspace_id: id, workspace_name: findName(workspaces, id) });
    }
    case "project": {
      const { projects } = await readNames({ projects: ids });
      return (id) => ({ project_id: id, project_name: findName(projects, id) });
    }
    case "user": {
      const { users } = await readNames({ users: ids });
      return (id) => ({ user_id: id, user_email: findName(users, id) });
    }
    case "api_key":
      return (id) => ({ api_key_short_key: id });
  }
}
