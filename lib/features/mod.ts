/** What a feature adds to the life of a run: its half in lib. lib/storage/features.ts has the list of features. */
import type { Environment } from "../environment.ts";
import type { ExecutorEvent } from "../executor/contract.ts";
import type { Journal } from "../executor/journal.ts";
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
  TraceUsage,
} from "../storage/mod.ts";

/** What `lib/service/features.ts` passes to each feature. */
export interface FeatureContext {
  readonly storage: Storage;
  readonly bus: EventBus;
  readonly identity: IdentityStore;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly deployment: DeploymentRow;
  readonly user_agent: string;
  /** The start of URLs that leave the process; undefined while it is unknown. */
  base_url(): string | undefined;
}

/** What the executor has reported during an attempt. */
export interface AttemptReport {
  usage(): TraceUsage | null;
}

/** A task at intervals. */
export interface FeatureJob {
  readonly interval_ms: number;
  /** The log message when the job fails. */
  readonly failure: string;
  /** One batch; it is called again until it returns 0. `nouns`: those of the service. */
  step(parts: object): Promise<number>;
}

/** The attempt that a journal belongs to. */
export interface JournalAttempt {
  readonly claimed: ClaimedRun;
  /** Repeats a failing call of the store for as long as a lease lasts. */
  retry<Answer>(call: () => Promise<Answer>): Promise<Answer>;
  /** Saves what the executor has shown and what the journal has; resolves when that is committed, or when it failed. */
  save(): Promise<void>;
  /** The attempt stops, and what the executor shows from now on is dropped. True after a cancel too, when writes are still allowed. */
  isOutputEnded(): boolean;
  /** Renews the lease if it has expired. Resolves when it holds, or when the attempt stops. */
  ensureLease(): Promise<void>;
  /** Aborts the signal of the job with the reason `suspended`. */
  abortSuspended(): void;
}

/** The journal of an attempt, as the engine uses it. */
export interface AttemptJournal extends Journal {
  hasUnsaved(): boolean;
  /** The attempt has shown this. */
  onEmitted(event: ExecutorEvent): void;
  /** Takes what is not saved yet. */
  drain(): Pick<Progress, "call">;
  /** The executor has settled, whatever becomes of the run: nothing is watched any more. */
  close(): void;
  /** The attempt ends: so does the call, unless its executor has paused it. */
  end(): void;
  /** The run waits: set when the executor has suspended it. */
  readonly suspension: Suspension | null;
}

/** Every member is optional. Methods on runs are called for each run, so they must cost nothing for runs that do not use the feature. */
interface FeatureMembers {
  /** Its nouns, by their names in the service. */
  readonly resources?: object;
  /** The nouns of the service are made. */
  connect?(parts: object): void;
  /** Members of a new run's row. A `request` is a `RunCreate`, an `origin` a `RunOrigin`. Errors: invalid. */
  prepare?(request: object, origin: object): Partial<NewRun>;
  /** Members of each thread that a run creates and keeps. */
  readonly thread?: Partial<NewThread>;
  /** Members of each claim. */
  readonly claim?: Partial<LeaseTerms>;
  /** Whether statements of the feature belong to the end of the run. */
  isUsedBy?(run: RunRow): boolean;
  /** A frame right before the end of a run; null for a run without one. Results of `wait` have it as `__event__`. */
  readonly trailer?: { readonly event: string; data(run: RunRow): JsonObject | null };
  /** What is stored with the end of an attempt. `values`: the last state. */
  finish?(run: RunRow, values: Json | undefined, report: AttemptReport): Partial<FinishRun>;
  /** The end is stored. */
  onFinishStored?(run: RunRow): void;
  /**
   * An attempt leaves its run without ending it: the run is retried, waits, or was taken away. `report`: what no other attempt reports.
   * Must not reject.
   */
  onAttemptReleased?(run: RunRow, report: AttemptReport): Promise<void>;
  /** The way to the steps of a durable function. */
  journal?(attempt: JournalAttempt): AttemptJournal;
  /** How long retention keeps the rows that the SQL half of the feature names. */
  readonly keep_ms?: number;
  readonly job?: FeatureJob;
}

/** The half in lib of one feature, with the members that its line in `Features` asks for. */
export type FeatureOf<Name extends FeatureName> = Omit<FeatureMembers, "trailer" | "keep_ms"> &
  MembersFor<Name, "end_frame", Pick<FeatureMembers, "trailer">> &
  MembersFor<Name, "swept", Pick<FeatureMembers, "keep_ms">>;

/** A feature of a service. */
export interface RunFeature extends FeatureMembers {
  readonly name: FeatureName;
}

/** The frames that features put right before the end of a run. */
export type TrailerFrames = readonly (readonly [event: string, data: JsonObject])[];

/** The features of a service as one. */
export interface CombinedFeatures
  extends Required<
    Pick<RunFeature, "thread" | "claim" | "prepare" | "finish" | "onFinishStored" | "onAttemptReleased">
  > {
  journal(attempt: JournalAttempt): AttemptJournal | undefined;
  trailer(run: RunRow): TrailerFrames;
  isTrailer(event: string): boolean;
}

/** The features that have a member: others cost a run nothing. */
const featuresWith = <Name extends keyof RunFeature>(
  features: readonly RunFeature[],
  name: Name,
): readonly (RunFeature & Required<Pick<RunFeature, Name>>)[] =>
  features.filter((feature): feature is RunFeature & Required<Pick<RunFeature, Name>> => feature[name] !== undefined);

const mergeMembers = <Members>(members: readonly (Members | undefined)[]): Members => Object.assign({}, ...members);

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
