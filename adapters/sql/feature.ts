/** What a feature adds to the tables and to the batches of a run's life: its half in SQL. lib/storage/features.ts has the list of features. */
import type { FeatureName, MembersFor, VerbsOf } from "../../lib/storage/features.ts";
import type { ClaimTerms, CreateRun, FinishRun, NewRun, NewThread, Progress } from "../../lib/storage/mod.ts";
import type { LeaseFence, ThreadKey } from "./checkpoints.ts";
import type { SqlValue } from "./driver.ts";
import type { TableDefinition } from "./schema/tables.ts";
import type { Args, Database, Statement } from "./statement.ts";
import type { RawBuilder } from "./template.ts";

/** Which runs of a batch: a subquery of their ids, or a condition on rows of `runs`. */
export type Runs<Of> = (p: Of) => RawBuilder<unknown>;

/** Column name → its value in a new row. */
export type Columns<Of> = Readonly<Record<string, (of: Of) => SqlValue>>;

/** A copy of the thread `from`. */
export type ThreadCopy = ThreadKey & { from: string };

/** A run that is claimed as it is created. */
export type Created = { run_id: string; started_at: number };

/** How runs end, for the statements of features. `error` is JSON. */
export type RunEnd = { deployment: string; status: string; error: string | null; now: number };

/** Every member is optional. The statements of a run that does not use the feature must be none, or must not be sent. */
interface SqlFeatureMembers<Tables extends object> {
  readonly tables?: Tables;
  /** Columns of `runs` and `threads` that belong to the feature. */
  readonly runColumns?: Columns<NewRun>;
  readonly threadColumns?: Columns<NewThread>;
  /** Goes after the row of a new run. Must have no effect if the run was not created. */
  created?(deployment: string, request: CreateRun): readonly Statement[];
  /**
   * Goes after the claim of a run, also in the batch that creates it: then the run is known. Must have no effect unless the run has
   * this lease.
   */
  claimed?(deployment: string, claim: ClaimTerms, created?: Created): readonly Statement[];
  /** Goes into the batch that ends an attempt, while the run is `running`. Must have no effect without the lease. */
  finished?(fence: LeaseFence, finish: FinishRun): readonly Statement[];
  /**
   * Goes into every batch that ends runs, before their status changes; `runs` is a condition on rows of `runs`. Not sent for an
   * attempt whose `FinishRun.features` lacks the feature. `finish` is absent for runs that never started.
   */
  ended?<Of extends RunEnd & Args>(runs: Runs<Of>): (end: Of, finish?: FinishRun) => Statement;
  /** A condition on rows of `runs`: the log of the run has a frame of this feature right before its end. */
  readonly end_frame?: RawBuilder<unknown>;
  /** Goes into each batch that stores progress, while the run is `running`. Must have no effect without the lease. */
  saved?(fence: LeaseFence, progress: Progress, now: number): readonly Statement[];
  /** Goes before every deletion of runs, except by retention; `which` selects their ids. */
  deleted?<Of extends Args>(which: Runs<Of>): ((args: Of) => Statement) | readonly ((args: Of) => Statement)[];
  /** Goes into the batch that copies a thread. Must have no effect unless `copied` holds. */
  readonly copied?: (copied: (p: ThreadCopy) => RawBuilder<unknown>) => readonly ((copy: ThreadCopy) => Statement)[];
  /** Rows that retention deletes once `time` is older than the `features` member of `SweepTerms` says. `key` identifies a row. */
  readonly swept?: {
    readonly table: keyof Tables & string;
    readonly key: string;
    readonly time: string;
    readonly condition?: RawBuilder<unknown>;
  };
  /** The verbs of the feature. `executes`: this process holds the worker lock, if the database has one. */
  verbs?(driver: Database, executes: () => boolean): object;
}

/** The half in SQL of one feature, with the members that its line in `Features` asks for. */
export type SqlFeatureOf<Name extends FeatureName, Tables extends object = Record<never, never>> = Omit<
  SqlFeatureMembers<Tables>,
  "verbs" | "end_frame" | "swept"
> &
  MembersFor<Name, "verbs", { verbs?(driver: Database, executes: () => boolean): VerbsOf<Name> & object }> &
  MembersFor<Name, "end_frame", Pick<SqlFeatureMembers<Tables>, "end_frame">> &
  MembersFor<Name, "swept", Pick<SqlFeatureMembers<Tables>, "swept">>;

/** A feature in SQL. */
export interface SqlFeature extends SqlFeatureMembers<Readonly<Record<string, TableDefinition>>> {
  readonly name: FeatureName;
}
