/** The features of a service. Their order is that of adapters/sql/features.ts. */
import type { Binding, Directory } from "../auth/binding.ts";
import { type Feature, type FeatureContext, joinFeatures, type RunFeatures } from "../features/mod.ts";
import { bindFeedback } from "../feedback/bind.ts";
import { feedbackFeature } from "../feedback/feature.ts";
import type { Feedback, FeedbackDirectory } from "../feedback/mod.ts";
import type { ServiceOptions, Settings } from "../options.ts";
import { bindCalls } from "../steps/bind.ts";
import type { CallDirectory, Calls } from "../steps/calls.ts";
import { stepsFeature } from "../steps/feature.ts";
import { threadTtlFeature } from "../threads/ttl.ts";
import { usageFeature } from "../usage/feature.ts";
import type { Usage } from "../usage/mod.ts";
import { bindWebhooks } from "../webhooks/bind.ts";
import type { Deliveries, Webhooks } from "../webhooks/deliver.ts";
import { webhooksFeature } from "../webhooks/feature.ts";
import type { WebhookSettings } from "../webhooks/options.ts";

/** The parts of a service that features can use. */
export interface ServiceContext extends FeatureContext {
  readonly options: ServiceOptions;
  readonly settings: Settings;
  readonly webhooks: WebhookSettings;
}

const FEATURES: readonly ((context: ServiceContext) => Feature)[] = [
  feedbackFeature,
  webhooksFeature,
  usageFeature,
  threadTtlFeature,
  stepsFeature,
];

/** The nouns of features. */
export interface FeatureNouns {
  readonly feedback: FeedbackDirectory;
  readonly usage: Usage;
  readonly deliveries: Deliveries;
  readonly calls: CallDirectory;
}

/** Those that `service.as` and requests use. */
export interface FeatureCallerNouns {
  readonly feedback: Feedback;
  readonly webhooks: Webhooks;
  readonly calls: Calls;
}

export interface FeatureDirectories {
  readonly feedback: FeedbackDirectory;
  readonly webhooks: Directory<Webhooks>;
  readonly calls: CallDirectory;
}

export const FEATURE_BINDERS: {
  readonly [Name in keyof FeatureCallerNouns]: (
    directory: FeatureDirectories[Name],
    binding: Binding,
  ) => FeatureCallerNouns[Name];
} = { feedback: bindFeedback, webhooks: bindWebhooks, calls: bindCalls };

export interface Features {
  readonly list: readonly Feature[];
  readonly all: RunFeatures;
  readonly nouns: FeatureNouns;
}

export function createFeatures(context: ServiceContext): Features {
  const list = FEATURES.map((create) => create(context));
  return { list, all: joinFeatures(list), nouns: Object.assign({}, ...list.map(({ nouns }) => nouns)) };
}
