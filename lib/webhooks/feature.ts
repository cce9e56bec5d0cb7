/** Webhooks of runs: the URL of a request, and the delivery that the end of the run stores. */
import { ServiceError } from "../errors.ts";
import type { FeatureContext, FeatureOf } from "../features/mod.ts";
import type { Json } from "../json.ts";
import type { FinishRun, NewRun, RunRow } from "../storage/mod.ts";
import type { DeliveryAttemptOptions } from "./delivery-attempt.ts";
import { findExposedHeaders, type WebhookOptions, type WebhookSettings } from "./options.ts";
import { checkUrl } from "./policy.ts";
import { createPush, type PushRequest, refusedUrlError } from "./pushes.ts";
import { createWebhookSender } from "./sender.ts";
import { createSystemTransport } from "./system-transport.ts";

interface WebhookContext extends FeatureContext {
  readonly options: { readonly webhooks?: WebhookOptions };
  readonly webhooks: WebhookSettings;
  readonly settings: { readonly retention: { readonly deliveries_ms: number } };
}

/** The limit of a chain in which webhooks start runs that have webhooks. */
const MAX_WEBHOOK_DEPTH = 5;
/** The maximum length of a state in webhooks, in characters. Larger ones are omitted. */
const MAX_VALUES_CHARS = 5 * 1024 * 1024;

/**
 * Creates the feature of webhooks, with the sender of deliveries. Logs a warning if configured headers could reach any public
 * host.
 */
export function webhooksFeature(context: WebhookContext): FeatureOf<"webhooks"> {
  const { options, webhooks, bus, scope, environment, settings } = context;
  const { loopback, policy } = webhooks;
  let loadedTransport: ReturnType<typeof createSystemTransport> | undefined;
  // Loaded by the first attempt: on Bun it takes as long as half of the start.
  /** Returns the transport of the options, else that of the system; null on runtimes without one. Keeps it for later calls. */
  const transport: DeliveryAttemptOptions["transport"] = async () => {
    loadedTransport ??= webhooks.transport ? Promise.resolve(webhooks.transport) : createSystemTransport();
    return await loadedTransport;
  };
  let traces: Pick<DeliveryAttemptOptions, "formatTraceParent"> = {};
  const formatTraceParent: DeliveryAttemptOptions["formatTraceParent"] = (row) => traces.formatTraceParent?.(row);
  const sender = createWebhookSender({ ...context, settings: webhooks, transport, loopback, formatTraceParent });
  const exposedNames = findExposedHeaders(options.webhooks ?? {}, webhooks);
  if (exposedNames.length > 0) {
    const message = `webhooks.headers: every caller that starts a run can have ${exposedNames.join(", ")} sent to any public host; name the hosts in webhooks.url.allowed_domains`;
    environment.log({ level: "warn", message });
  }
  return {
    resources: { webhooks: sender },
    connect(parts: typeof traces) {
      traces = parts;
    },
    /**
     * Returns the push or else the webhook of a new run as stored; an empty object without one and, for a webhook, with
     * webhooks disabled. Throws `invalid` for a chain that is too deep, and `webhook_refused` for a URL that the policy
     * refuses.
     */
    prepare(
      { webhook: url = null }: { readonly webhook?: string | null },
      { webhook_depth: depth = 0, push }: { readonly webhook_depth?: number; readonly push?: PushRequest },
    ): Pick<NewRun, "webhook" | "push"> {
      if (depth >= MAX_WEBHOOK_DEPTH) {
        const message = `x-webhook-depth: webhooks that start runs may follow each other ${MAX_WEBHOOK_DEPTH} times`;
        throw new ServiceError("invalid", message);
      }
      if (push) return { push: createPush(policy, environment, push) };
      if (url === null) return {};
      const verdict = checkUrl(policy, url);
      if (verdict.verdict === "ignore") return {};
      if (verdict.verdict === "reject") throw refusedUrlError(verdict.reason);
      const { destination } = verdict;
      const isLoopback = destination.kind === "loopback";
      if (isLoopback && !loopback) throw refusedUrlError("loopback_unavailable");
      return { webhook: { url, host: isLoopback ? "" : `${destination.host}:${destination.port}`, depth } };
    },
    isUsedBy: (run) => run.webhook !== null || mayHavePushConfig(run),
    finish: ({ webhook, stateless }, values) => (webhook && !stateless ? { values: toStoredValues(values) } : {}),
    onFinishStored(run) {
      if (run.webhook || mayHavePushConfig(run)) bus.publish("deliveries", scope.deployment, "here");
    },
    keep_ms: settings.retention.deliveries_ms,
  };
}

/** Returns true if the run may have push configurations: any process can add one to its task while it executes. */
const mayHavePushConfig = ({ metadata }: RunRow): boolean => metadata.created_by === "a2a";

/**
 * Returns the JSON text of the state, null without a state. Text of more than `MAX_VALUES_CHARS` characters is null too, and
 * `omitted`.
 */
function toStoredValues(values: Json | undefined): NonNullable<FinishRun["values"]> {
  const json = values === undefined ? null : JSON.stringify(values);
  const isOmitted = json !== null && json.length > MAX_VALUES_CHARS;
  return { json: isOmitted ? null : json, omitted: isOmitted };
}
