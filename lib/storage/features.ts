/** The list of features and the types that both halves of a feature share. */
import type { DeliveryStorage, PushStorage } from "./deliveries.ts";
import type { FeedbackStorage } from "./feedback.ts";
import type { DurableCallStorage } from "./steps.ts";
import type { RunTraceStorage } from "./traces.ts";
import type { UsageStorage } from "./usage.ts";

/**
 * One line for each feature. The compiler asks for its two halves, in lib/service/features.ts and adapters/sql/features.ts, and for
 * the members of the halves that belong together. `verbs`: the part of `Storage` that its SQL file implements. `end_frame`: runs that
 * use it have a frame right before their end. `retention`: retention deletes its old rows.
 */
export interface FeatureTable {
  readonly feedback: { readonly operations: FeedbackStorage; readonly end_frame: true; readonly retention: true };
  readonly webhooks: { readonly operations: DeliveryStorage & PushStorage; readonly retention: true };
  readonly usage: { readonly operations: UsageStorage };
  readonly thread_ttl: object;
  readonly steps: { readonly operations: DurableCallStorage };
  readonly traces: { readonly operations: RunTraceStorage; readonly retention: true };
}

/** The name of a feature. */
export type FeatureName = keyof FeatureTable;

/** The members that a half must have if its feature has `Mark` in `FeatureTable`, and must not have otherwise. */
export type MembersFor<Name extends FeatureName, Mark extends string, Members> = FeatureTable[Name] extends {
  readonly [Key in Mark]: unknown;
}
  ? Required<Members>
  : { readonly [Key in keyof Members]?: undefined };

/** The storage operations of one feature. */
export type FeatureOperations<Name extends FeatureName> = FeatureTable[Name] extends {
  readonly operations: infer Operations;
}
  ? Operations
  : unknown;

/** The storage operations of all features. */
export type FeatureStorage = {
  readonly [Name in FeatureName]: (operations: FeatureOperations<Name>) => void;
}[FeatureName] extends (operations: infer All) => void
  ? All
  : never;
