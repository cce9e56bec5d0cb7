/** The SQL half of a feature: its tables, and its statements in the batches of a run. lib/storage/features.ts lists the features. */
import type { Expression, RawBuilder } from "kysely";
import type { FeatureName, FeatureOperations, MembersFor } from "../../lib/storage/features.ts";
import type { CreateRun, FinishRun, LeaseTerms, NewRun, NewThread, Progress } from "../../lib/storage/mod.ts";
import type { ThreadKey } from "./channel-values.ts";
import type { Database } from "./database.ts";
import type { SqlValue } from "./driver.ts";
import type { Operands } from "./parameters.ts";
import type { Statement } from "./query.ts";
import type { TableDefinition } from "./schema/tables.ts";
import type { LeaseFence } from "./statements/checkpoints.ts";

/** Column name → its value in a new row. */
export type Columns<Of> = Readonly<Record<string, (of: Of) => SqlValue>>;

/** A copy of the thread `from`. */
export type ThreadCopy = ThreadKey & { from: string };

/** A run that is claimed as it is created. */
export type CreatedClaim = { run_id: string; started_at: number };

/**
 * The end of runs, for the statements of features. `error` is JSON. `values` is the final state as JSON, null when there is none or it is
 * omitted.
 */
export type RunEnd = {
  deployment: string;
  status: string;
  error: string | null;
  values: string | null;
  values_omitted: number;
  now: number;
};

/** Builds a statement about runs that end. `isEnding` is a condition on rows of `runs`. */
export type EndedStatement = (end: Operands<RunEnd>, isEnding: Expression<boolean>) => RawBuilder<never>;

/** Builds a statement about runs that are deleted. `run_ids` selects their ids. */
export type DeletedStatement = (run_ids: Expression<unknown>) => RawBuilder<never>;

/** Builds a statement that copies rows of a thread. It must have no effect unless `isCopied` holds. */
export type CopiedStatement = (copy: Operands<ThreadCopy>, isCopied: Expression<boolean>) => RawBuilder<never>;

/** Every member is optional. The statements of a run that does not use the feature must be none, or must not be sent. */
interface SqlFeatureMembers<Tables extends object> {
  readonly tables?: Tables;
  /** Columns of `runs` and `threads` that belong to the feature. */
  readonly runColumns?: Columns<NewRun>;
  readonly threadColumns?: Columns<NewThread>;
  /** Goes after the row of a new run. Must have no effect if the run was not created. */
  onRunCreated?(deployment: string, request: CreateRun): readonly Statement[];
  /**
   * Goes after the claim of a run, also in the batch that creates it: then the run is known. Must have no effect unless the run has
   * this lease.
   */
  onRunClaimed?(deployment: string, claim: LeaseTerms, onRunCreated?: CreatedClaim): readonly Statement[];
  /** Goes into the batch that ends an attempt, while the run is `running`. Must have no effect without the lease. */
  onAttemptFinished?(fence: LeaseFence, finish: FinishRun): readonly Statement[];
  /**
   * Goes into every batch that ends runs, before their status changes. Not sent for an attempt whose `FinishRun.features` lacks the
   * feature. Runs that never started have no values.
   */
  readonly onRunsEnded?: EndedStatement;
  /** A condition on rows of `runs`: the log of the run has a frame of this feature right before its end. */
  readonly end_frame?: Expression<boolean>;
  /** Goes into each batch that stores progress, while the run is `running`. Must have no effect without the lease. */
  onProgressSaved?(fence: LeaseFence, progress: Progress, now: number): readonly Statement[];
  /** The statements that go before every deletion of runs, except by retention, by their names. */
  readonly onRunsDeleted?: Readonly<Record<string, DeletedStatement>>;
  /** The statements that go into the batch that copies a thread, by their names. */
  readonly onThreadCopied?: Readonly<Record<string, CopiedStatement>>;
  /** Rows that retention deletes once `time` is older than the `features` member of `SweepTerms` says. `key` identifies a row. */
  readonly retention?: {
    readonly table: keyof Tables & string;
    readonly key: string;
    readonly time: string;
    /** A second time that must be as old. It needs no index, because it is never before `time`. */
    readonly end?: string;
    readonly condition?: Expression<boolean>;
  };
  /** The operations of the feature. `executes`: this process holds the worker lock, if the database has one. */
  operations?(driver: Database, hasWorkerLock: () => boolean): object;
}

/** The columns of a feature in `runs` and `threads`, by name. */
interface ColumnNames {
  readonly runs?: string;
  readonly threads?: string;
}

/** A member that maps column names to values, where there are names. */
type ColumnsMember<Member extends string, Source, Name> = [Name] extends [string]
  ? { readonly [Key in Member]: { readonly [Column in Name]: (source: Source) => SqlValue } }
  : { readonly [Key in Member]?: undefined };

/** The half in SQL of one feature, with its columns, and with the members that its line in `Features` asks for. */
export type SqlFeatureFor<
  Name extends FeatureName,
  Tables extends object = Record<never, never>,
  Names extends ColumnNames = Record<never, never>,
> = Omit<SqlFeatureMembers<Tables>, "operations" | "end_frame" | "retention" | "runColumns" | "threadColumns"> &
  ColumnsMember<"runColumns", NewRun, Names["runs"]> &
  ColumnsMember<"threadColumns", NewThread, Names["threads"]> &
  MembersFor<
    Name,
    "operations",
    { operations?(driver: Database, hasWorkerLock: () => boolean): FeatureOperations<Name> & object }
  > &
  MembersFor<Name, "end_frame", Pick<SqlFeatureMembers<Tables>, "end_frame">> &
  MembersFor<Name, "retention", Pick<SqlFeatureMembers<Tables>, "retention">>;

/** A feature in SQL. */
export interface SqlFeature extends SqlFeatureMembers<Readonly<Record<string, TableDefinition>>> {
  readonly name: FeatureName;
}
