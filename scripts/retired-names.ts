/**
 * Names and phrases that are no longer used, with what to write instead. scripts/house-limits.json says how often one may still
 * stand in the tree; without a number there, never.
 */
export interface Retired {
  readonly name: string;
  readonly use: string;
  /** Where alone the name has this meaning: files and folders. Without it, everywhere. */
  readonly only?: readonly string[];
  /** Where the word means something else. */
  readonly except?: readonly string[];
}

/** Identifiers of lib, adapters and server.ts. */
export const RETIRED_NAMES: readonly Retired[] = [
  { name: "Tape", use: "RunEvents" },
  { name: "tape", use: "events" },
  { name: "tapes", use: "events" },
  { name: "RunTape", use: "RunEvents" },
  { name: "TapeTerms", use: "a name with RunEvents" },
  { name: "JournalOptions", use: "ProgressWriterOptions" },
  { name: "createJournal", use: "createProgressWriter" },
  { name: "Yields", use: "EventMapper" },
  { name: "yields", use: "eventMapper" },
  { name: "YieldOptions", use: "EventMapperOptions" },
  { name: "follow", use: "subscribe", only: ["lib/streams", "lib/runs"] },
  { name: "Follower", use: "RunSubscription" },
  { name: "FollowOptions", use: "RunSubscriptionOptions" },
  { name: "threadStream", use: "threadSubscription" },
  { name: "told", use: "notifications" },
  { name: "Told", use: "Notifications" },
  { name: "ToldOptions", use: "NotificationOptions" },
  { name: "createTold", use: "prepareNotifications" },
  { name: "onTold", use: "onRunEnded" },
  { name: "ending", use: "terminal event" },
  { name: "Ending", use: "TerminalEvent" },
  { name: "holdLease", use: "startHeartbeat" },
  { name: "HeldLease", use: "Heartbeat" },
  { name: "proveLease", use: "ensureLease" },
  { name: "Execution", use: "Attempt" },
  { name: "execution", use: "attempt" },
  { name: "startExecution", use: "startAttempt" },
  { name: "Place", use: "WorkerSlot (engine), or what it is the place of" },
  { name: "moments", use: "times" },
  { name: "AskedRun", use: "RunAuthorization" },
  { name: "askedRun", use: "authorizeRun" },
  { name: "guest", use: "shared access" },
  { name: "guests", use: "shared access" },
  { name: "guestOf", use: "shared access" },
  { name: "Gate", use: "HostCheck" },
  { name: "gate", use: "hostCheck" },
  { name: "Call", use: "RequestContext", only: ["lib/http"] },
  { name: "ambient", use: "environment" },
  { name: "Ambient", use: "Environment" },
  { name: "PostgresAmbient", use: "PostgresEnvironment" },
  { name: "outage", use: "storageHealth" },
  { name: "Outage", use: "StorageHealth" },
  { name: "OutageOptions", use: "StorageHealthOptions" },
  { name: "sweeper", use: "retentionJob" },
  { name: "Sweeper", use: "RetentionJob" },
  { name: "SweeperOptions", use: "RetentionJobOptions" },
  { name: "reach", use: "visibility" },
  { name: "Reach", use: "Visibility" },
  { name: "assistantReach", use: "assistantVisibility" },
  { name: "within", use: "withVisibility", except: ["adapters"] },
  { name: "visitor", use: "principal", except: ["adapters/standalone/loader.ts"] },
  { name: "Visitor", use: "Principal" },
  { name: "may", use: "authorize" },
  { name: "still", use: "isStillValid", except: ["lib/engine/health.ts"] },
  { name: "proveOptions", use: "validateOptions" },
  { name: "judgeUrl", use: "checkUrl" },
  { name: "opening", use: "initialState", only: ["lib/functions"] },
  { name: "Opening", use: "InitialState" },
  { name: "produce", use: "drive" },
  { name: "Question", use: "Interrupt" },
  { name: "question", use: "interrupt" },
  { name: "held", use: "in-memory checkpoints, or what the thing is" },
  { name: "watch", use: "nodeTracker", only: ["adapters/langgraph"] },
  { name: "Watch", use: "NodeTracker", only: ["adapters/langgraph"] },
  { name: "changing", use: "stateUpdate" },
  { name: "tally", use: "pendingCounter" },
  { name: "Tally", use: "PendingCounter" },
  { name: "rest", use: "restingStatus", only: ["adapters/sql/runs"] },
  { name: "series", use: "retrySeries", except: ["adapters/studio/page"] },
  { name: "charged", use: "countsAsAttempt" },
  { name: "alone", use: "single_process", only: ["adapters", "lib/storage"] },
  { name: "exclusive", use: "acquireWorkerLock" },
  {
    name: "shared",
    use: "multi_process",
    only: ["adapters/libsql", "adapters/postgres", "adapters/sql/driver.ts", "adapters/sql/mod.ts"],
  },
  { name: "fork", use: "byDialect", only: ["adapters/sql"] },
  { name: "touched", use: "lock_keys", except: ["lib/auth"] },
  { name: "settled", use: "what the thing is" },
  { name: "served", use: "what the thing is" },
  { name: "placed", use: "what the thing is" },
  { name: "wired", use: "what the thing is" },
  { name: "Pipe", use: "Database" },
  { name: "constant", use: "the option stable", only: ["adapters/sql"] },
  { name: "namedThings", use: "namedRows" },
  { name: "outlook", use: "candidates" },
  { name: "mirrored", use: "mergeContext" },
  { name: "knowing", use: "withUser" },
  { name: "isPlain", use: "isStorable, isPlainObject" },
  { name: "nextTurn", use: "loopTick" },
  { name: "TurnLimit", use: "TickLimit" },
];

/** Signs of a translated sentence. Searched in README.md, in docs, and in the texts of errors and logs. */
export const RETIRED_PHRASES: readonly string[] = [
  "whoever",
  "nobody",
  "somebody",
  "told",
  "asks for",
  "is looked for",
  "may be had",
  "is there",
  "that which",
  "as it was",
  "its own",
  "all that is wrong",
];

export const PHRASE_SOURCES = ["README.md", "docs", "texts"] as const;

export type PhraseSource = (typeof PHRASE_SOURCES)[number];
