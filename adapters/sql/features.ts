/** The features, and what they add together. The order of the list is the order of their statements. */
import type {
  ClaimTerms,
  CreateRun,
  FeatureStorage,
  FinishRun,
  NewRun,
  NewThread,
  Progress,
} from "../../lib/storage/mod.ts";
import type { LeaseFence } from "./checkpoints.ts";
import { webhooks } from "./deliveries.ts";
import { columnTypes } from "./dialect.ts";
import type { Columns, Created, Feature, RunEnd, Runs, ThreadCopy } from "./feature.ts";
import { feedback } from "./feedback.ts";
import type { deliveryTables, pushTables } from "./schema/deliveries.ts";
import type { feedbackTables } from "./schema/feedback.ts";
import type { callTables } from "./schema/steps.ts";
import { addArgumentTypes } from "./schema/tables.ts";
import type { usageTables } from "./schema/usage.ts";
import type { Args, Database, Statement } from "./statement.ts";
import { steps } from "./steps.ts";
import { type RawBuilder, sql } from "./template.ts";
import { threadTtl } from "./thread-ttl.ts";
import { usage } from "./usage.ts";

export type FeatureTables = typeof feedbackTables &
  typeof deliveryTables &
  typeof pushTables &
  typeof usageTables &
  typeof callTables;

const FEATURES: readonly Feature<keyof FeatureTables>[] = [feedback, webhooks, usage, threadTtl, steps];

export const featureTables: FeatureTables = Object.assign({}, ...FEATURES.map(({ tables }) => tables));
addArgumentTypes(columnTypes, featureTables);

/** The columns of features in a row, and their values. */
interface RowColumns<Of> {
  readonly names: readonly string[];
  values(of: Of): Args;
}

function together<Of>(columns: readonly (Columns<Of> | undefined)[]): RowColumns<Of> {
  const all = columns.flatMap((some) => Object.entries(some ?? {}));
  return {
    names: all.map(([name]) => name),
    values: (of) => Object.fromEntries(all.map(([name, value]) => [name, value(of)])),
  };
}

export const OF_RUN: RowColumns<NewRun> = together(FEATURES.map(({ runColumns }) => runColumns));
export const OF_THREAD: RowColumns<NewThread> = together(FEATURES.map(({ threadColumns }) => threadColumns));

export const whenCreated = (deployment: string, request: CreateRun): Statement[] =>
  FEATURES.flatMap((feature) => feature.created?.(deployment, request) ?? []);

export const whenClaimed = (deployment: string, claim: ClaimTerms, created?: Created): Statement[] =>
  FEATURES.flatMap((feature) => feature.claimed?.(deployment, claim, created) ?? []);

export const whenFinished = (fence: LeaseFence, finish: FinishRun): Statement[] =>
  FEATURES.flatMap((feature) => feature.finished?.(fence, finish) ?? []);

export const whenSaved = (fence: LeaseFence, progress: Progress, now: number): Statement[] =>
  FEATURES.flatMap((feature) => feature.saved?.(fence, progress, now) ?? []);

/** See `Feature.copied`. */
export function whenCopied(copied: (p: ThreadCopy) => RawBuilder<unknown>): (copy: ThreadCopy) => Statement[] {
  const made = FEATURES.flatMap((feature) => feature.copied?.(copied) ?? []);
  return (copy) => made.map((statement) => statement(copy));
}

/** See `Feature.ended`. */
export function whenEnded<Of extends RunEnd & Args>(runs: Runs<Of>): (end: Of, finish?: FinishRun) => Statement[] {
  const made = FEATURES.flatMap(({ name, ended }) => (ended ? [{ name, statement: ended(runs) }] : []));
  return (end, finish) =>
    made.filter(({ name }) => finish?.features?.includes(name) ?? true).map(({ statement }) => statement(end, finish));
}

/** See `Feature.deleted`. */
export function whenDeleted<Of extends Args>(which: Runs<Of>): (args: Of) => Statement[] {
  const made = FEATURES.flatMap(({ deleted }) => deleted?.(which) ?? []);
  return (args) => made.map((statement) => statement(args));
}

/** How many frames of features come right before the end of a row of `runs`. */
export const endFrames: RawBuilder<number> = sql<number>`${sql.join(
  FEATURES.flatMap(({ end_frame }) => (end_frame ? [sql`case when ${end_frame} then 1 else 0 end`] : [])),
  sql` + `,
)}`;

/** See `Feature.swept`. */
export const SWEPT: readonly (NonNullable<Feature["swept"]> & { readonly name: string })[] = FEATURES.flatMap(
  ({ name, swept }) => (swept ? [{ name, ...swept }] : []),
);

export const featureVerbs = (driver: Database, executes: () => boolean): FeatureStorage =>
  Object.assign({}, ...FEATURES.map((feature) => feature.verbs?.(driver, executes)));
