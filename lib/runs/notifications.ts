/** Validates and prepares a run's feedback links and webhook before the run is stored. */
import type { Environment } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import { readFeedbackKeys, tokenUrlAt } from "../feedback/keys.ts";
import type { NewRun, NewWebhook, RunRow, TraceTerms } from "../storage/mod.ts";
import { checkUrl, type WebhookPolicy } from "../webhooks/policy.ts";
import type { RunCreate, RunOrigin } from "./request.ts";

export interface NotificationOptions {
  readonly environment: Environment;
  /** The start of feedback URLs; undefined while it is unknown. */
  readonly baseUrl: () => string | undefined;
  /** How long feedback tokens stay valid after the end of their run. */
  readonly token_life_ms: number;
  readonly trace: TraceTerms;
  readonly webhooks: WebhookPolicy;
  /** Relative webhook URLs can be delivered. */
  readonly loopback: boolean;
  /** Absolute webhook URLs can be delivered. */
  readonly transport: boolean;
}

export interface Notifications {
  /** Errors: invalid. */
  prepare(request: RunCreate, origin: RunOrigin): Pick<NewRun, "feedback" | "webhook">;
  /** The feedback URLs of a run by key, as JSON; null when it has none. */
  feedbackUrls(run: RunRow): string | null;
}

/** The limit of a chain in which webhooks start runs that have webhooks. */
const DEEPEST = 5;

export function createNotifications(options: NotificationOptions): Notifications {
  const { environment, baseUrl, token_life_ms, trace, webhooks } = options;

  function feedbackOf(request: RunCreate): NonNullable<NewRun["feedback"]> | undefined {
    const keys = readFeedbackKeys(request.feedback_keys);
    if (keys.length === 0) return undefined;
    if (baseUrl() === undefined) throw new ServiceError("invalid", "public_base_url is not set");
    const { workspace_id, project_id } = trace;
    const tokens = keys.map((key) => [key, environment.uuid()] as const);
    return { tokens, life_ms: token_life_ms, workspace_id, project_id };
  }

  function webhookOf(request: RunCreate, depth: number): NewWebhook | undefined {
    const url = request.webhook ?? null;
    if (url === null) return undefined;
    const verdict = checkUrl(webhooks, url);
    if (verdict.verdict === "ignore") return undefined;
    const refused = (reason: string): ServiceError => new ServiceError("invalid", `Invalid webhook URL: ${reason}`);
    if (verdict.verdict === "reject") throw refused(verdict.reason);
    const { destination } = verdict;
    if (destination.kind === "loopback") {
      if (!options.loopback) throw refused("loopback_unavailable");
      return { url, host: "", depth };
    }
    if (!options.transport) throw refused("delivery_unavailable");
    return { url, host: `${destination.host}:${destination.port}`, depth };
  }

  return {
    prepare(request, { webhook_depth = 0 }) {
      if (webhook_depth >= DEEPEST) {
        throw new ServiceError(
          "invalid",
          `x-webhook-depth: webhooks that start runs may follow each other ${DEEPEST} times`,
        );
      }
      const feedback = feedbackOf(request);
      const webhook = webhookOf(request, webhook_depth);
      return { ...(feedback ? { feedback } : {}), ...(webhook ? { webhook } : {}) };
    },
    feedbackUrls({ feedback }) {
      const base = baseUrl();
      if (feedback.length === 0 || base === undefined) return null;
      return JSON.stringify(Object.fromEntries(feedback.map(([key, id]) => [key, tokenUrlAt(base, id)])));
    },
  };
}
