/** The features, and what they add together. The order of the list is the order of their statements. */
import type { FeatureName } from "../../lib/storage/features.ts";
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
import type { Columns, Created, RunEnd, Runs, SqlFeature, SqlFeatureOf, ThreadCopy } from "./feature.ts";
import { feedback } from "./feedback.ts";
import { addArgumentTypes } from "./schema/tables.ts";
import type { Args, Database, Statement } from "./statement.ts";
import { steps } from "./steps.ts";
import { type RawBuilder, sql } from "./template.ts";
import { threadTtl } from "./thread-ttl.ts";
import { usage } from "./usage.ts";

const HALVES = {
  ...{ feedback, webhooks, usage, thread_ttl: threadTtl, steps },
} satisfies { readonly [Name in FeatureName]: Omit<SqlFeatureOf<Name>, "tables" | "swept"> };

/** The tables of all features. */
export type FeatureTables = {
  readonly [Name in FeatureName]: (tables: TablesOf<(typeof HALVES)[Name]>) => void;
}[FeatureName] extends (tables: infer All) => void
  ? All
  : never;

type TablesOf<Half> = Half extends { readonly tables?: infer Tables } ? NonNullable<Tables> : unknown;

const FEATURES: readonly SqlFeature[] = Object.entries(HALVES).map(([name, half]) => ({
  ...(half as Omit<SqlFeature, "name">),
  name: name as FeatureName,
}));

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

/** See `SqlFeature.copied`. */
export function whenCopied(copied: (p: ThreadCopy) => RawBuilder<unknown>): (copy: ThreadCopy) => Statement[] {
  const made = FEATURES.flatMap((feature) => feature.copied?.(copied) ?? []);
  return (copy) => made.map((statement) => statement(copy));
}

/** See `SqlFeature.ended`. */
export function whenEnded<Of extends RunEnd & Args>(runs: Runs<Of>): (end: Of, finish?: FinishRun) => Statement[] {
  const made = FEATURES.flatMap(({ name, ended }) => (ended ? [{ name, statement: ended(runs) }] : []));
  return (end, finish) =>
    made.filter(({ name }) => finish?.features?.includes(name) ?? true).map(({ statement }) => statement(end, finish));
}

/** See `SqlFeature.deleted`. */
export function whenDeleted<Of extends Args>(which: Runs<Of>): (args: Of) => Statement[] {
  const made = FEATURES.flatMap(({ deleted }) => deleted?.(which) ?? []);
  return (args) => made.map((statement) => statement(args));
}

/** How many frames of features come right before the end of a row of `runs`. */
export const endFrames: RawBuilder<number> = sql<number>`${sql.join(
  FEATURES.flatMap(({ end_frame }) => (end_frame ? [sql`case when ${end_frame} then 1 else 0 end`] : [])),
  sql` + `,
)}`;

/** See `SqlFeature.swept`. */
export const SWEPT: readonly (NonNullable<SqlFeature["swept"]> & { readonly name: FeatureName })[] = FEATURES.flatMap(
  ({ name, swept }) => (swept ? [{ name, ...swept }] : []),
);

export const featureVerbs = (driver: Database, executes: () => boolean): FeatureStorage =>
  Object.assign({}, ...FEATURES.map((feature) => feature.verbs?.(driver, executes)));
