/** Usage: hourly sums of what runs have used, for callers who may read them. */
import type { Environment } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import { type Caller, type IdentityStore, requireOrganizationPermission } from "../storage/identity.ts";
import type { TraceUsage, UsageStorage } from "../storage/mod.ts";
import type { UsageReport, UsageRequest } from "./report.ts";

export type { UsageRecord, UsageReport, UsageRequest } from "./report.ts";

/** Reports what runs have used. */
export interface Usage {
  /**
   * Checks that the caller may read reports. Routes call it before they parse the query; `report` checks it too. Errors: not_found
   * (reporting is disabled), forbidden.
   */
  admit(by: Caller): void;
  /** Errors: not_found (reporting is disabled), forbidden. */
  report(by: Caller, request: UsageRequest): Promise<UsageReport>;
  /** Aggregates the traces of all closed hours. Several processes may call it at any time. */
  seal(): Promise<void>;
  /** The tokens and cost reported for the run; null before the run has started. */
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

const HOUR = 3_600_000;
/** How long an hour stays open after its end, for late commits. */
const MARGIN = 120_000;

export function createUsage({ storage, identity, environment, enabled, unreadable_workspaces }: UsageOptions): Usage {
  function admit(by: Caller): void {
    if (!enabled) throw new ServiceError("usage_disabled", "Usage reporting is not enabled");
    requireOrganizationPermission(by, "organization:read");
  }

  function readable(by: Caller, ids: readonly string[]): readonly string[] {
    const allowed = ids.filter((id) => by.workspaces.get(id)?.has("workspaces:read"));
    if (allowed.length < ids.length && unreadable_workspaces === "refuse") {
      throw new ServiceError("workspace_forbidden", "No read access to one of the workspaces");
    }
    return allowed;
  }

  return {
    admit,
    async report(by, request) {
      admit(by);
      const workspace_ids = readable(by, request.workspace_ids);
      const { usageReport } = await import("./report.ts");
      return await usageReport(storage, identity, workspace_ids, request);
    },
    async seal() {
      const before = Math.floor((environment.now() - MARGIN) / HOUR) * HOUR;
      while (await storage.sealUsage(before));
    },
    traceUsage: async (run_id) => (await storage.getTrace(run_id))?.usage ?? null,
  };
}
