/** Webhooks of runs: the URL that a request names, and the outbox that its end writes to. */
import { ServiceError } from "../errors.ts";
import type { FeatureContext, FeatureOf } from "../features/mod.ts";
import type { Json } from "../json.ts";
import type { FinishRun, NewRun, RunRow } from "../storage/mod.ts";
import type { AttemptOptions } from "./attempt.ts";
import { createDeliveries } from "./deliver.ts";
import { exposedHeaders, type WebhookOptions, type WebhookSettings } from "./options.ts";
import { checkUrl } from "./policy.ts";
import { newPush, type PushRequest, refusedUrl } from "./pushes.ts";
import { systemTransport } from "./send.ts";

interface WebhookContext extends FeatureContext {
  readonly options: { readonly webhooks?: WebhookOptions };
  readonly webhooks: WebhookSettings;
  readonly settings: { readonly retention: { readonly deliveries_ms: number } };
}

/** The limit of a chain in which webhooks start runs that have webhooks. */
const DEEPEST = 5;
/** A larger state is left out of webhooks, in characters. */
const LARGEST_VALUES = 5 * 1024 * 1024;

export function webhooksFeature(context: WebhookContext): FeatureOf<"webhooks"> {
  const { options, webhooks, bus, scope, environment, settings } = context;
  const { loopback, policy } = webhooks;
  let loaded: ReturnType<typeof systemTransport> | undefined;
  // Loaded by the first attempt: on Bun it takes as long as half of the start.
  const transport: AttemptOptions["transport"] = async () => {
    loaded ??= webhooks.transport ? Promise.resolve(webhooks.transport) : systemTransport();
    return await loaded;
  };
  const deliveries = createDeliveries({ ...context, settings: webhooks, transport, loopback });
  const exposed = exposedHeaders(options.webhooks ?? {}, webhooks);
  if (exposed.length > 0) {
    const message = `webhooks.headers: every caller that starts a run can have ${exposed.join(", ")} sent to any public host; name the hosts in webhooks.url.allowed_domains`;
    environment.log({ level: "warn", message });
  }
  return {
    nouns: { webhooks: deliveries },
    prepare(
      { webhook: url = null }: { readonly webhook?: string | null },
      { webhook_depth: depth = 0, push }: { readonly webhook_depth?: number; readonly push?: PushRequest },
    ): Pick<NewRun, "webhook" | "push"> {
      if (depth >= DEEPEST) {
        const message = `x-webhook-depth: webhooks that start runs may follow each other ${DEEPEST} times`;
        throw new ServiceError("invalid", message);
      }
      if (push) return { push: newPush(policy, environment, push) };
      if (url === null) return {};
      const verdict = checkUrl(policy, url);
      if (verdict.verdict === "ignore") return {};
      if (verdict.verdict === "reject") throw refusedUrl(verdict.reason);
      const { destination } = verdict;
      const local = destination.kind === "loopback";
      if (local && !loopback) throw refusedUrl("loopback_unavailable");
      return { webhook: { url, host: local ? "" : `${destination.host}:${destination.port}`, depth } };
    },
    isUsedBy: (run) => run.webhook !== null || mayBePushed(run),
    finish: ({ webhook, stateless }, values) => (webhook && !stateless ? { values: shownValues(values) } : {}),
    finished(run) {
      if (run.webhook || mayBePushed(run)) bus.publish("deliveries", scope.deployment, "here");
    },
    keep_ms: settings.retention.deliveries_ms,
  };
}

/** A push configuration of the task can be added in any process while the run executes. */
const mayBePushed = ({ metadata }: RunRow): boolean => metadata.created_by === "a2a";

/** The state as the payload has it. */
function shownValues(values: Json | undefined): NonNullable<FinishRun["values"]> {
  const json = values === undefined ? null : JSON.stringify(values);
  const omitted = json !== null && json.length > LARGEST_VALUES;
  return { json: omitted ? null : json, omitted };
}
