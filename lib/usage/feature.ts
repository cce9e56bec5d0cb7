/** Traces of runs: billed with the first claim, with the tokens and cost that attempts report. */
import type { FeatureContext, FeatureOf } from "../features/mod.ts";
import { createUsage, type UsageOptions } from "./mod.ts";

interface UsageContext extends FeatureContext {
  readonly settings: { readonly usage: Pick<UsageOptions, "enabled" | "unreadable_workspaces"> };
}

const SEAL_INTERVAL_MS = 5_000;

/** Creates the feature of usage: traces of runs, the usage that an attempt or run stores, and a job that sums past hours. */
export function usageFeature(context: UsageContext): FeatureOf<"usage"> {
  const { storage, environment, deployment, settings } = context;
  const { workspace_id, project_id } = deployment;
  const usage = createUsage({ ...context, ...settings.usage });
  return {
    resources: { usage },
    claim: { trace: { workspace_id, project_id, counted: settings.usage.enabled } },
    /** Returns the model usage to add to the trace of the run; an empty object if none was reported. */
    finish(_run, _values, report) {
      const reported = report.usage();
      return reported ? { usage: reported } : {};
    },
    // Once, because the storage operation is not idempotent.
    /**
     * Adds the model usage of an attempt whose run continues to the trace of the run. Logs a failure and does not repeat it,
     * because the storage operation is not idempotent. Never rejects.
     */
    async onAttemptReleased({ run_id }, report) {
      const reported = report.usage();
      try {
        if (reported) await storage.addTraceUsage(run_id, reported);
      } catch (error) {
        environment.log({ level: "warn", message: "the usage of an attempt was not stored", run_id, error });
      }
    },
    job: {
      interval_ms: SEAL_INTERVAL_MS,
      failure: "summing usage by hour failed",
      // One call sums all past hours.
      step: () => usage.sealHours().then(() => 0),
    },
  };
}
