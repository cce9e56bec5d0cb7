/** Usage: hourly sums of the usage of runs, for callers who may read them. */
import type { Environment } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import { type Caller, type IdentityStore, requireOrganizationPermission } from "../storage/identity.ts";
import type { TraceUsage, UsageStorage } from "../storage/mod.ts";
import type { UsageReport, UsageRequest } from "./report.ts";

export type { UsageRecord, UsageReport, UsageRequest } from "./report.ts";

/** Reports the usage of runs. */
export interface Usage {
  /**
   * Checks that the caller may read reports. Routes call it before they parse the query; `report` checks it too. Throws `not_found`
   * (reporting is disabled) or `forbidden`.
   */
  admit(caller: Caller): void;
  /**
   * Returns a report on the requested workspaces that the caller may read. Throws `usage_disabled`, `permission_missing`, and
   * `workspace_forbidden` if the options refuse unreadable workspaces.
   */
  report(caller: Caller, request: UsageRequest): Promise<UsageReport>;
  /**
   * Adds up the traces of all past hours that are not added up yet, except for hours that ended a short time ago. Several
   * processes may call it at any time. Resolves when none is left.
   */
  sealHours(): Promise<void>;
  /** Returns the tokens and cost reported for the run, or null before it has started. */
  traceUsage(run_id: string): Promise<TraceUsage | null>;
}

export interface UsageOptions {
  readonly storage: Pick<UsageStorage, "countUsage" | "sealUsage" | "getTrace">;
  readonly identity: Pick<IdentityStore, "readNames">;
  readonly environment: Pick<Environment, "now">;
  readonly enabled: boolean;
  /** `refuse` rejects a request that lists a workspace the caller may not read; `omit` leaves the workspace out. */
  readonly unreadable_workspaces: "refuse" | "omit";
}

const HOUR_MS = 3_600_000;
/** The time for which an hour stays unsealed after its end, for late commits. */
const LATE_COMMIT_GRACE_MS = 120_000;

/** Creates the operations on usage. The code of reports is imported when one is requested. */
export function createUsage({ storage, identity, environment, enabled, unreadable_workspaces }: UsageOptions): Usage {
  /** Throws `usage_disabled` if usage reporting is off, and `permission_missing` without `organization:read`. */
  function admit(caller: Caller): void {
    if (!enabled) throw new ServiceError("usage_disabled", "Usage reporting is not enabled");
    requireOrganizationPermission(caller, "organization:read");
  }

  /**
   * Returns the workspaces that the caller may read, in order. For another one it throws `workspace_forbidden` if
   * `unreadable_workspaces` is `refuse`, else omits it.
   */
  function filterReadableWorkspaces(caller: Caller, ids: readonly string[]): readonly string[] {
    const readableIds = ids.filter((id) => caller.workspaces.get(id)?.has("workspaces:read"));
    if (readableIds.length < ids.length && unreadable_workspaces === "refuse") {
      throw new ServiceError("workspace_forbidden", "No read access to one of the workspaces");
    }
    return readableIds;
  }

  return {
    admit,
    async report(caller, request) {
      admit(caller);
      const workspace_ids = filterReadableWorkspaces(caller, request.workspace_ids);
      const { createUsageReport } = await import("./report.ts");
      return await createUsageReport(storage, identity, workspace_ids, request);
    },
    async sealHours() {
      const before = Math.floor((environment.now() - LATE_COMMIT_GRACE_MS) / HOUR_MS) * HOUR_MS;
      while (await storage.sealUsage(before));
    },
    traceUsage: async (run_id) => (await storage.getTrace(run_id))?.usage ?? null,
  };
}
