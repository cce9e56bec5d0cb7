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
import type {
  Columns,
  CopiedStatement,
  Created,
  DeletedStatement,
  EndedStatement,
  SqlFeature,
  SqlFeatureOf,
} from "./feature.ts";
import { feedback } from "./feedback.ts";
import { columns, type ParameterType } from "./parameters.ts";
import type { Statement } from "./query.ts";
import { agentTables } from "./schema/agents.ts";
import type { ColumnsOf, TableDefinition } from "./schema/tables.ts";
import type { LeaseFence } from "./statements/checkpoints.ts";
import { steps } from "./steps.ts";
import { threadTtl } from "./thread-ttl.ts";
import { usage } from "./usage.ts";

const HALVES = {
  ...{ feedback, webhooks, usage, thread_ttl: threadTtl, steps },
} satisfies {
  readonly [Name in FeatureName]: Omit<SqlFeatureOf<Name>, "tables" | "swept" | "runColumns" | "threadColumns">;
};

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

/** The columns of a table that belong to features. */
interface FeatureColumns<Source, Row, Name extends keyof Row & string> {
  readonly names: readonly Name[];
  readonly types: { readonly [Column in Name]: ParameterType<Extract<Row[Column], SqlValue>> };
  /** Returns the values in a new row. */
  values(source: Source): Pick<Row, Name>;
}

function featureColumns<Source, Table extends TableDefinition, Name extends keyof Table["columns"] & string>(
  table: Table,
  lists: readonly (Columns<Source> | undefined)[],
): FeatureColumns<Source, ColumnsOf<Table>, Name> {
  const all = lists.flatMap((list) => Object.entries(list ?? {}));
  const names = all.map(([name]) => name as Name);
  return {
    names,
    types: columns(table, names) as never,
    values: (source) => Object.fromEntries(all.map(([name, value]) => [name, value(source)])) as never,
  };
}

/** The names of all columns that a member of the halves has. */
type ColumnOf<Member extends "runColumns" | "threadColumns"> = {
  readonly [Name in FeatureName]: (typeof HALVES)[Name] extends { readonly [Key in Member]: infer Values }
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

export const whenCreated = (deployment: string, request: CreateRun): Statement[] =>
  FEATURES.flatMap((feature) => feature.created?.(deployment, request) ?? []);

export const whenClaimed = (deployment: string, claim: LeaseTerms, created?: Created): Statement[] =>
  FEATURES.flatMap((feature) => feature.claimed?.(deployment, claim, created) ?? []);

export const whenFinished = (fence: LeaseFence, finish: FinishRun): Statement[] =>
  FEATURES.flatMap((feature) => feature.finished?.(fence, finish) ?? []);

export const whenSaved = (fence: LeaseFence, progress: Progress, now: number): Statement[] =>
  FEATURES.flatMap((feature) => feature.saved?.(fence, progress, now) ?? []);

/** See `SqlFeature.ended`: the statements by the names of the features. */
export const ENDED: Readonly<Record<string, EndedStatement>> = Object.fromEntries(
  FEATURES.flatMap(({ name, ended }) => (ended ? [[name, ended]] : [])),
);

/** See `SqlFeature.deleted`. */
export const DELETED: Readonly<Record<string, DeletedStatement>> = Object.assign(
  {},
  ...FEATURES.map(({ deleted }) => deleted),
);

/** See `SqlFeature.copied`. */
export const COPIED: Readonly<Record<string, CopiedStatement>> = Object.assign(
  {},
  ...FEATURES.map(({ copied }) => copied),
);

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
  Object.assign({}, ...FEATURES.map((feature) => feature.operations?.(driver, executes)));
