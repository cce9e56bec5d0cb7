/** The types of a service: those that its users name, and each other type that a signature of them uses. */

export type {
  Assistant,
  AssistantCreate,
  AssistantFilter,
  AssistantPatch,
  AssistantSearch,
  Assistants,
  AssistantVersion,
  PageOf,
} from "./assistants/mod.ts";
export type { KeyCreate } from "./auth/account-checks.ts";
export type { AccountOptions, PermissionGrant } from "./auth/account-operations.ts";
export type { Accounts } from "./auth/accounts.ts";
export type { Auth, AuthClaims, AuthUserOf, SdkAuth } from "./auth/custom.ts";
export type {
  AuthAction,
  AuthAnswer,
  AuthAnyValue,
  AuthContext,
  AuthEvent,
  AuthEventsOf,
  AuthFilter,
  AuthHandlers,
  AuthPattern,
  AuthResource,
  AuthValues,
} from "./auth/events.ts";
export type { AuthMode, AuthOptions } from "./auth/principal.ts";
export type { StaticIdentityOptions } from "./auth/static-keys.ts";
export type { StaticKey } from "./auth/static-store.ts";
export type { CRON_RUN_OPTIONS, CronRunOptions } from "./crons/cron-run.ts";
export type { CronDetail, CronFirings, Firing, SchedulePreview } from "./crons/firings.ts";
export type { CronCounters } from "./crons/loop.ts";
export type { Cron, CronCreate, CronPatch, CronSearch, Crons, CronTiming } from "./crons/mod.ts";
export type { FinishedRun } from "./engine/finished-runs.ts";
export type { WorkerCounters } from "./engine/worker.ts";
export type { Environment, KeepAlive, LogRecord } from "./environment.ts";
export type { ErrorCode, ErrorReason, InputIssue, REASONS, STATUS } from "./errors.ts";
export type { AgentSchemas } from "./executor/agent-schemas.ts";
export type { AgentSettings } from "./executor/agent-settings.ts";
export type {
  AgentError,
  AsJson,
  Check,
  CheckedAgents,
  CheckKeys,
  CheckResult,
  CommandResume,
  ContextChannels,
  DeclaredContext,
  DefinitionKey,
  GraphAnswers,
  GraphContext,
  GraphInput,
  GraphInputs,
  GraphInterrupt,
  GraphOutput,
  GraphOutputs,
  GraphQuestion,
  GraphResume,
  Graphs,
  GraphsOf,
  GraphWire,
  Intersection,
  InvalidResult,
  KnownMembers,
  MergedGraphs,
  MessageClass,
  NamedGraphs,
  NotJson,
  OptionalUndefined,
  Schema,
  SentContext,
  Simplify,
  StreamContext,
  Untyped,
  Wire,
  WireOf,
} from "./executor/agent-types.ts";
export type * from "./executor/contract.ts";
export type {
  ActiveJournal,
  CallInput,
  ExternalEvent,
  Journal,
  JournalEntry,
  JournalLimits,
  OutputPosition,
  StepKind,
  WaitingFor,
} from "./executor/journal.ts";
export type {
  AIMessage,
  ContentBlock,
  HumanMessage,
  ImageBlock,
  InvalidToolCall,
  Message,
  MessageChunk,
  MessageLike,
  MessageMembers,
  MessagesInput,
  RemoveMessage,
  RoleMessage,
  SystemMessage,
  TextBlock,
  ToolCall,
  ToolMessage,
  ToolRoleMessage,
  UsageMetadata,
} from "./executor/message-types.ts";
export type { Prices } from "./executor/model-usage.ts";
export type { CheckedDuration, Duration, DurationError, DurationPart, StepName } from "./executor/step-names.ts";
export type {
  Feedback,
  FeedbackCreate,
  FeedbackFilter,
  FeedbackRecord,
  FeedbackSubmission,
  FeedbackToken,
  FeedbackTokens,
  TokenRequest,
} from "./feedback/mod.ts";
export type { FeedbackLink, FeedbackOverview, ScoreQuery, ScoreSeries, ScoreStride } from "./feedback/overview.ts";
export type { InputType, OutputType, WithMessages } from "./functions/agent.ts";
export type {
  AgentFunction,
  AgentResult,
  FunctionJob,
  Interrupted,
  JobTypes,
  SpanOptions,
  UntypedJob,
  UpdateOf,
  Yielded,
} from "./functions/function-job.ts";
export type { Agent, AgentDefinition, AgentOptions, AgentWithSettings, JobOf, WireFor } from "./functions/mod.ts";
export type {
  AskOptions,
  DurableOperations,
  EventAddress,
  FromJsonSchema,
  Infer,
  JsonSchema,
  NullAfter,
  StepContext,
  StepOptions,
  StepResult,
  WaitOptions,
} from "./functions/operations.ts";
export type {
  AgentCalls,
  AgentHandle,
  AgentState,
  CallOptions,
  CallSettings,
  ContextOption,
  FailedOutcome,
  FrameData,
  OpenInterrupt,
  Outcome,
  Rest,
  ResumeOptions,
  RunFrames,
  RunRef,
  StartedRun,
  StreamFrame,
  StreamOptions,
  TypedRuns,
} from "./handles/types.ts";
export type { IsoTime, Json, JsonObject, Uuid } from "./json.ts";
export type {
  CorsOptions,
  DisabledGroups,
  HeaderChoice,
  HttpOptions,
  LargeBodyOptions,
  McpOptions,
  ROUTE_GROUPS,
  RouteGroup,
} from "./options/http.ts";
export type { CommandErrorCode, CommandResponseMeta, ProtocolCommand } from "./protocol/commands.ts";
export type { CommandResponse, ProtocolEvent, ThreadProtocol } from "./protocol/mod.ts";
export type { Frame, Run, RunCancel, RunCreate, RunJoin, RunList, RunStream, Runs, RunWait } from "./runs/mod.ts";
export type { NewTraceOrigin, RunOrigin } from "./runs/request.ts";
export type { ActiveStatus, CancelTarget } from "./runs/run-stopper.ts";
export type { RunDetail, RunListQuery, RunSearches, RunSummary } from "./runs/search.ts";
export type { Percentiles, RunMinute, RunStats } from "./runs/stats.ts";
export type { AgentResources } from "./service/agent-resources.ts";
export type { FeatureResources } from "./service/features.ts";
export type { ServerReport } from "./service/report.ts";
export type { Resources } from "./service/resources.ts";
export type { Metrics, Readiness, Service, ServiceInfo, ServiceOptions } from "./service.ts";
export type {
  DurableCalls,
  DurableCallTokens,
  RunDurableCalls,
  RunSteps,
  StepRecord,
  ThreadDurableCalls,
} from "./steps/calls.ts";
export type { CursorPage, CursorQuery, ListPosition } from "./storage/cursor.ts";
export type { PushKey } from "./storage/deliveries.ts";
export type * from "./storage/types.ts";
export type { Store, StoreIndex, StoreTtl } from "./store/mod.ts";
export type { EventFilter } from "./streams/event-filter.ts";
export type { Reader } from "./streams/log.ts";
export type { ThreadPosition, ThreadStreamMode, ThreadStreamQuery } from "./streams/thread-subscription.ts";
export type { AddStates, CheckpointSelector, HistoryQuery } from "./threads/history.ts";
export type { StateChange, Thread, ThreadCreate, ThreadPatch, ThreadSizeReport, Threads } from "./threads/mod.ts";
export type { StateChanges, Superstep } from "./threads/state-changes.ts";
export type { Inbox, InboxThread, ThreadListQuery, ThreadSummaries, ThreadSummary } from "./threads/summaries.ts";
export type {
  SearchSteps,
  ThreadExtra,
  ThreadFilter,
  ThreadSearch,
  ThreadSearches,
  ThreadTtlJson,
  TimeToLive,
} from "./threads/thread.ts";
export type { HistogramFamily, HistogramSample } from "./traces/histograms.ts";
export type { Redact, RedactedSpan, TraceOptions, TraceParentMode, TraceSampling } from "./traces/options.ts";
export type { RunTrace, TraceFeedback, TraceSegment } from "./traces/run-trace.ts";
export type { SpanLocation, TraceCounters, TracedAttempt, TracedFeedback, TraceSink } from "./traces/sinks.ts";
export type { TraceListing, TraceListQuery, TraceRead, Traces } from "./traces/traces.ts";
export type { Usage, UsageReport, UsageRequest } from "./usage/mod.ts";
export type { Stride, UsageDimensions, UsageRecord } from "./usage/report.ts";
export type { DeliveryDetail, DeliveryListQuery, DeliverySummary } from "./webhooks/deliveries.ts";
export type { OutboundRequest, OutboundResponse, SendRequest } from "./webhooks/http-client.ts";
export type {
  Loopback,
  ResolvedHeaders,
  WebhookOptions,
  WebhookSettings,
  WebhookTransport,
} from "./webhooks/options.ts";
export type { WebhookPayload, WebhookStatus } from "./webhooks/payload.ts";
export type { WebhookPolicy, WebhookUrlOptions } from "./webhooks/policy.ts";
export type { Pushes, PushRequest } from "./webhooks/pushes.ts";
export type { DeliveryCounters, Webhooks } from "./webhooks/sender.ts";
export type { ResolveHost } from "./webhooks/system-transport.ts";
