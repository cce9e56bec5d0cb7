/** The features, and what they add together. The order of the list is the order of their statements. */
import { type RawBuilder, sql } from "kysely";
import type { FeatureName } from "../../lib/storage/features.ts";
import type {
  CreateRun,
  FeatureStorage,
  FinishRun,
  LeaseTerms,
  NewRun,
  NewThread,
  Progress,
} from "../../lib/storage/mod.ts";
import type { Database } from "./database.ts";
import { webhooks } from "./deliveries.ts";
import type { SqlValue } from "./driver.ts";
import { steps } from "./durable-calls.ts";
import type {
  Columns,
  CopiedStatement,
  CreatedClaim,
  DeletedStatement,
  EndedStatement,
  SqlFeature,
  SqlFeatureFor,
} from "./feature.ts";
import { feedback } from "./feedback.ts";
import { columns, type ParameterType } from "./parameters.ts";
import type { Statement } from "./query.ts";
import { agentTables } from "./schema/agents.ts";
import type { ColumnsOf, TableDefinition } from "./schema/tables.ts";
import type { LeaseFence } from "./statements/checkpoints.ts";
import { threadTtl } from "./thread-ttl.ts";
import { traces } from "./traces.ts";
import { usage } from "./usage.ts";

const SQL_FEATURES = {
  ...{ feedback, webhooks, usage, thread_ttl: threadTtl, steps, traces },
} satisfies {
  readonly [Name in FeatureName]: Omit<SqlFeatureFor<Name>, "tables" | "retention" | "runColumns" | "threadColumns">;
};

/** The tables of all features. */
export type FeatureTables = {
  readonly [Name in FeatureName]: (tables: TablesOf<(typeof SQL_FEATURES)[Name]>) => void;
}[FeatureName] extends (tables: infer All) => void
  ? All
  : never;

type TablesOf<Half> = Half extends { readonly tables?: infer Tables } ? NonNullable<Tables> : unknown;

const FEATURES: readonly SqlFeature[] = Object.entries(SQL_FEATURES).map(([name, feature]) => ({
  ...(feature as Omit<SqlFeature, "name">),
  name: name as FeatureName,
}));

export const featureTables: FeatureTables = Object.assign({}, ...FEATURES.map(({ tables }) => tables));

/** The columns of a table that belong to features. */
interface FeatureColumns<Source, Row, Name extends keyof Row & string> {
  readonly names: readonly Name[];
  readonly types: { readonly [Column in Name]: ParameterType<Extract<Row[Column], SqlValue>> };
  /** Returns the values in a new row. */
  values(source: Source): Pick<Row, Name>;
}

/**
 * Merges the columns that features add to a table. Returns their names, the types of their arguments, and a function that reads
 * their values from a source.
 */
function featureColumns<Source, Table extends TableDefinition, Name extends keyof Table["columns"] & string>(
  table: Table,
  lists: readonly (Columns<Source> | undefined)[],
): FeatureColumns<Source, ColumnsOf<Table>, Name> {
  const entries = lists.flatMap((list) => Object.entries(list ?? {}));
  const names = entries.map(([name]) => name as Name);
  return {
    names,
    types: columns(table, names) as never,
    values: (source) => Object.fromEntries(entries.map(([name, value]) => [name, value(source)])) as never,
  };
}

/** The names of all columns that a member of the halves has. */
type ColumnOf<Member extends "runColumns" | "threadColumns"> = {
  readonly [Name in FeatureName]: (typeof SQL_FEATURES)[Name] extends { readonly [Key in Member]: infer Values }
    ? keyof Values
    : never;
}[FeatureName];

export const RUN_COLUMNS = featureColumns<NewRun, typeof agentTables.runs, ColumnOf<"runColumns">>(
  agentTables.runs,
  FEATURES.map(({ runColumns }) => runColumns),
);

export const THREAD_COLUMNS = featureColumns<NewThread, typeof agentTables.threads, ColumnOf<"threadColumns">>(
  agentTables.threads,
  FEATURES.map(({ threadColumns }) => threadColumns),
);

export const runCreatedStatements = (deployment: string, request: CreateRun): Statement[] =>
  FEATURES.flatMap((feature) => feature.onRunCreated?.(deployment, request) ?? []);

export const runClaimedStatements = (deployment: string, claim: LeaseTerms, created?: CreatedClaim): Statement[] =>
  FEATURES.flatMap((feature) => feature.onRunClaimed?.(deployment, claim, created) ?? []);

export const attemptFinishedStatements = (fence: LeaseFence, finish: FinishRun): Statement[] =>
  FEATURES.flatMap((feature) => feature.onAttemptFinished?.(fence, finish) ?? []);

export const progressSavedStatements = (fence: LeaseFence, progress: Progress, now: number): Statement[] =>
  FEATURES.flatMap((feature) => feature.onProgressSaved?.(fence, progress, now) ?? []);

/** See `SqlFeature.ended`: the statements by the names of the features. */
export const RUNS_ENDED: Readonly<Record<string, EndedStatement>> = Object.fromEntries(
  FEATURES.flatMap(({ name, onRunsEnded }) => (onRunsEnded ? [[name, onRunsEnded]] : [])),
);

/** See `SqlFeature.deleted`. */
export const RUNS_DELETED: Readonly<Record<string, DeletedStatement>> = Object.assign(
  {},
  ...FEATURES.map(({ onRunsDeleted }) => onRunsDeleted),
);

/** See `SqlFeature.copied`. */
export const THREAD_COPIED: Readonly<Record<string, CopiedStatement>> = Object.assign(
  {},
  ...FEATURES.map(({ onThreadCopied }) => onThreadCopied),
);

/** The number of frames that features put right before the end of a row of `runs`. */
export const featureEndFrames: RawBuilder<number> = sql<number>`${sql.join(
  FEATURES.flatMap(({ end_frame }) => (end_frame ? [sql`case when ${end_frame} then 1 else 0 end`] : [])),
  sql` + `,
)}`;

/** See `SqlFeature.retention`. */
export const RETENTION_TABLES: readonly (NonNullable<SqlFeature["retention"]> & { readonly name: FeatureName })[] =
  FEATURES.flatMap(({ name, retention }) => (retention ? [{ name, ...retention }] : []));

export const createFeatureStorage = (driver: Database, hasWorkerLock: () => boolean): FeatureStorage =>
  Object.assign({}, ...FEATURES.map((feature) => feature.operations?.(driver, hasWorkerLock)));
