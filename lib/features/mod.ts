/** The half of features in lib: what a feature adds to the life of a run. lib/storage/features.ts lists the features. */
import type { Environment } from "../environment.ts";
import type { ExecutorEvent } from "../executor/contract.ts";
import type { Journal } from "../executor/journal.ts";
import type { TraceRecorder } from "../executor/trace.ts";
import type { Json, JsonObject } from "../json.ts";
import type { EventBus } from "../storage/event-bus.ts";
import type { FeatureName, MembersFor } from "../storage/features.ts";
import type { DeploymentRow, IdentityStore } from "../storage/identity.ts";
import type {
  ClaimedRun,
  FinishRun,
  LeaseTerms,
  NewRun,
  NewThread,
  Progress,
  RunRow,
  Scope,
  Storage,
  Suspension,
  TerminalStatus,
  TraceEnd,
  TraceUpdate,
  TraceUsage,
} from "../storage/mod.ts";

/** The arguments that `lib/service/features.ts` passes to each feature. */
export interface FeatureContext {
  readonly storage: Storage;
  readonly bus: EventBus;
  readonly identity: IdentityStore;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly deployment: DeploymentRow;
  readonly user_agent: string;
  /** Returns the base of public URLs; undefined while it is unknown. */
  base_url(): string | undefined;
}

/** The usage that the executor has reported during an attempt. */
export interface AttemptReport {
  usage(): TraceUsage | null;
}

/** A job that runs at intervals. */
export interface FeatureJob {
  readonly interval_ms: number;
  /** The log message when the job fails. */
  readonly failure: string;
  /** Runs one batch. It is called again until it returns 0. `parts` are those of the service. */
  step(parts: object): Promise<number>;
}

/** The attempt that a journal belongs to. */
export interface JournalAttempt {
  readonly claimed: ClaimedRun;
  /** Repeats a failing storage call for as long as a lease lasts. */
  retry<Answer>(call: () => Promise<Answer>): Promise<Answer>;
  /** Saves the emitted output and the journal. Resolves when that is committed, or when it failed. */
  save(): Promise<void>;
  /** Returns true if the attempt stops and further output is dropped. After a cancel, writes may still be allowed then. */
  isOutputEnded(): boolean;
  /** Renews the lease if it has expired. Resolves when it is held, or when the attempt stops. */
  ensureLease(): Promise<void>;
  /** Aborts the signal of the job with the reason `suspended`. */
  abortSuspended(): void;
}

/** The journal of an attempt, as the engine uses it. */
export interface AttemptJournal extends Journal {
  hasUnsaved(): boolean;
  /** Called once an event of the executor was handled. */
  onEmitted(event: ExecutorEvent): void;
  /** Removes and returns the unsaved entries. */
  drain(): Pick<Progress, "call">;
  /** Called when the executor has settled: stops watching events. */
  close(): void;
  /** Called when the attempt ends its run: ends the call, unless the executor has paused it. */
  end(): void;
  /** The suspension of the run; null unless the executor has suspended it. */
  readonly suspension: Suspension | null;
}

/** The attempt whose spans are recorded. */
export interface RecordedAttempt {
  readonly claimed: ClaimedRun;
  /** Called when spans have waited so long that they make a save. */
  onDue(): void;
}

/** How an attempt ended. */
export interface SpansEnd {
  /** `suspended` and `requeued`: the run continues. `lost`: another process may have it, or it was deleted. */
  readonly status: TerminalStatus | "suspended" | "requeued" | "lost";
  /** True if the run has ended with pending interrupts. */
  readonly isWaiting: boolean;
  /** True if the claim counts as an attempt. */
  readonly counted: boolean;
  /** The usage that the attempt has reported. */
  readonly usage: TraceUsage | null;
  /** What the executor has thrown. */
  readonly error?: unknown;
}

/** The spans of an attempt, as the engine uses them. */
export interface AttemptSpans {
  readonly recorder: TraceRecorder;
  /**
   * Reads the sums and names that earlier attempts have stored, and adds a span for each attempt that was lost. Called before the
   * executor starts, only if the run was claimed before. Does nothing if traces are not stored. Rejects if the storage cannot be
   * read.
   */
  load(): Promise<void>;
  /** Returns true if spans have waited so long (5 s) that they need a save of their own. */
  hasUnsaved(): boolean;
  /**
   * Removes and returns the spans that the next save takes; an empty object if none has waited for a second, after the end, and
   * for a run that is not sampled.
   */
  drain(): Pick<Progress, "spans">;
  /** Notes a save with the time that it took, in the sums of the attempt, in metrics and for sinks. A slow one becomes a span. */
  onCommit(duration_ms: number): void;
  /**
   * Ends the spans of an attempt that ends its run, and returns what is stored: with the unsaved spans if the run is sampled,
   * slow, or failed and failed ones are kept; else only with its sums. Returns undefined if traces are not stored.
   */
  end(outcome: SpansEnd): TraceEnd | undefined;
  /**
   * Ends the spans of an attempt whose run continues. Returns what is stored, without spans for a run that is not sampled;
   * undefined if traces are not stored.
   */
  release(outcome: SpansEnd): TraceUpdate | undefined;
  /** Counts the active time of the run in metrics, if this attempt has ended it. Called once the end of the run is stored. */
  onEndStored(): void;
  /** Ends the spans as lost if they have not ended, and closes the feed. Called once nothing more is stored. */
  close(): void;
}

/**
 * The members of a feature, all optional. Methods are called for each run, so they must cost nothing for runs that do not use the
 * feature.
 */
interface FeatureMembers {
  /** Its internal resources, by their names in the service. */
  readonly resources?: object;
  /** Loads the code that each run needs. Called before the worker starts. */
  load?(): Promise<void>;
  /** Called once the parts of the service are created. */
  connect?(parts: object): void;
  /** Returns members of a new run's row. `request` is a `RunCreate`, `origin` a `RunOrigin`. Throws `invalid`. */
  prepare?(request: object, origin: object): Partial<NewRun>;
  /** Members of each thread that a run creates and keeps. */
  readonly thread?: Partial<NewThread>;
  /** Members of each claim. */
  readonly claim?: Partial<LeaseTerms>;
  /** Returns true if statements of the feature belong to the end of the run. */
  isUsedBy?(run: RunRow): boolean;
  /** The frame before the end of a run. `data` returns null for a run without it. Results of `wait` have it as `__event__`. */
  readonly trailer?: { readonly event: string; data(run: RunRow): JsonObject | null };
  /** Returns what is stored with the end of an attempt. `values` is the last state. */
  finish?(run: RunRow, values: Json | undefined, report: AttemptReport): Partial<FinishRun>;
  /** Called once the end of the run is stored. */
  onFinishStored?(run: RunRow): void;
  /**
   * Called when an attempt ends and its run does not: the run is retried, waits, or was taken over. `report` has only what no
   * other attempt reports. Must not reject.
   */
  onAttemptReleased?(run: RunRow, report: AttemptReport): Promise<void>;
  /** Creates the journal of an attempt. */
  journal?(attempt: JournalAttempt): AttemptJournal;
  /** Creates the recorder of an attempt's spans; undefined if none are recorded. */
  spans?(attempt: RecordedAttempt): AttemptSpans | undefined;
  /** The age in milliseconds above which retention deletes the rows that the SQL half of the feature names. */
  readonly keep_ms?: number;
  readonly job?: FeatureJob;
}

/** The half in lib of one feature, with the members that its line in `Features` requires. */
export type FeatureOf<Name extends FeatureName> = Omit<FeatureMembers, "trailer" | "keep_ms"> &
  MembersFor<Name, "end_frame", Pick<FeatureMembers, "trailer">> &
  MembersFor<Name, "retention", Pick<FeatureMembers, "keep_ms">>;

/** A feature of a service. */
export interface RunFeature extends FeatureMembers {
  readonly name: FeatureName;
}

/** The frames that features emit before the end of a run. */
export type TrailerFrames = readonly (readonly [event: string, data: JsonObject])[];

/** The features of a service, combined. */
export interface CombinedFeatures
  extends Required<
    Pick<RunFeature, "thread" | "claim" | "prepare" | "finish" | "onFinishStored" | "onAttemptReleased">
  > {
  journal(attempt: JournalAttempt): AttemptJournal | undefined;
  spans(attempt: RecordedAttempt): AttemptSpans | undefined;
  trailer(run: RunRow): TrailerFrames;
  isTrailer(event: string): boolean;
}

/** Returns the features that have a member. Others cost a run nothing. */
const featuresWith = <Name extends keyof RunFeature>(
  features: readonly RunFeature[],
  name: Name,
): readonly (RunFeature & Required<Pick<RunFeature, Name>>)[] =>
  features.filter((feature): feature is RunFeature & Required<Pick<RunFeature, Name>> => feature[name] !== undefined);

const mergeMembers = <Members>(members: readonly (Members | undefined)[]): Members => Object.assign({}, ...members);

/**
 * Combines the features into one, which calls each in the order of the list and merges the members that they return. Only the
 * first feature with a journal gives one. `trailer` omits features without data; `finish` also names the features that the run
 * uses.
 */
export function combineFeatures(features: readonly RunFeature[]): CombinedFeatures {
  const [preparing, withTrailer, finishing] = [
    featuresWith(features, "prepare"),
    featuresWith(features, "trailer"),
    featuresWith(features, "finish"),
  ];
  const [withUse, notified, releasing] = [
    featuresWith(features, "isUsedBy"),
    featuresWith(features, "onFinishStored"),
    featuresWith(features, "onAttemptReleased"),
  ];
  const journaling = features.find(({ journal }) => journal);
  const recording = features.find(({ spans }) => spans);
  return {
    thread: mergeMembers(features.map(({ thread }) => thread)),
    claim: mergeMembers(features.map(({ claim }) => claim)),
    prepare: (request, origin) => mergeMembers(preparing.map((feature) => feature.prepare(request, origin))),
    trailer: (run) =>
      withTrailer.flatMap(({ trailer }) => {
        const data = trailer.data(run);
        return data === null ? [] : [[trailer.event, data] as const];
      }),
    journal: (attempt) => journaling?.journal?.(attempt),
    spans: (attempt) => recording?.spans?.(attempt),
    isTrailer: (event) => withTrailer.some(({ trailer }) => trailer.event === event),
    finish: (run, values, report) => ({
      ...mergeMembers(finishing.map((feature) => feature.finish(run, values, report))),
      features: withUse.filter((feature) => feature.isUsedBy(run)).map(({ name }) => name),
    }),
    onFinishStored: (run) => notified.forEach((feature) => void feature.onFinishStored(run)),
    onAttemptReleased: async (run, report) =>
      void (await Promise.all(releasing.map((feature) => feature.onAttemptReleased(run, report)))),
  };
}
