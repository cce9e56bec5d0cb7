/** The halves in lib of the features, and what a service uses of them. */
import type { InternalResource } from "../auth/authorizer.ts";
import {
  type CombinedFeatures,
  combineFeatures,
  type FeatureContext,
  type FeatureOf,
  type RunFeature,
} from "../features/mod.ts";
import { feedbackFeature } from "../feedback/feature.ts";
import type { Feedback, FeedbackTokens } from "../feedback/mod.ts";
import type { ServiceOptions, Settings } from "../options.ts";
import type { DurableCalls, DurableCallTokens } from "../steps/calls.ts";
import { stepsFeature } from "../steps/feature.ts";
import type { FeatureName } from "../storage/features.ts";
import { threadTtlFeature } from "../threads/ttl.ts";
import { type TraceParts, tracesFeature } from "../traces/feature.ts";
import type { Traces } from "../traces/traces.ts";
import { usageFeature } from "../usage/feature.ts";
import type { Usage } from "../usage/mod.ts";
import { webhooksFeature } from "../webhooks/feature.ts";
import type { WebhookSettings } from "../webhooks/options.ts";
import type { WebhookSender, Webhooks } from "../webhooks/sender.ts";

/** The parts of a service that features can use. */
export interface ServiceContext extends FeatureContext {
  readonly options: ServiceOptions;
  readonly settings: Settings;
  readonly webhooks: WebhookSettings;
}

const FEATURES: { readonly [Name in FeatureName]: (context: ServiceContext) => FeatureOf<Name> } = {
  feedback: feedbackFeature,
  webhooks: webhooksFeature,
  usage: usageFeature,
  thread_ttl: threadTtlFeature,
  steps: stepsFeature,
  traces: tracesFeature,
};

/** The resources of features that `service.as` and requests use. */
export interface FeatureResources {
  readonly feedback: Feedback;
  readonly webhooks: Webhooks;
  readonly calls: DurableCalls;
  readonly traces: Traces;
}

/** The internal resources of features, with the methods that need no caller. */
export type InternalFeatureResources = {
  readonly [Name in keyof FeatureResources]: InternalResource<FeatureResources[Name]>;
} & { readonly feedback: FeedbackTokens; readonly calls: DurableCallTokens };

/** The parts of features that the service uses. */
export type FeatureParts = InternalFeatureResources &
  TraceParts & { readonly usage: Usage; readonly webhooks: WebhookSender };

export interface ServiceFeatures {
  readonly list: readonly RunFeature[];
  readonly combined: CombinedFeatures;
  readonly parts: FeatureParts;
}

/** Creates the features of a service, their combination, and their resources together in one object. Connects nothing. */
export function createFeatures(context: ServiceContext): ServiceFeatures {
  const list = Object.entries(FEATURES).map(([name, create]) => ({ ...create(context), name: name as FeatureName }));
  return { list, combined: combineFeatures(list), parts: Object.assign({}, ...list.map(({ resources }) => resources)) };
}
