/**
 * Greenroom: an embeddable agent deployment service. Assistants, threads and runs behind one `Request → Response` handler
 * (`greenroom/server`), or called in process.
 * @module
 */
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
export { type AccountOptions, type Accounts, createAccounts, type Grant, type KeyCreate } from "./auth/accounts.ts";
export type {
  Auth,
  AuthAnswer,
  AuthClaims,
  AuthContext,
  AuthEvent,
  AuthHandler,
  AuthValue,
  SdkAuth,
} from "./auth/custom.ts";
export type { Access, AuthMode, AuthOptions, Principal, Use } from "./auth/principal.ts";
export { type StaticIdentityOptions, type StaticKey, staticIdentity } from "./auth/static-keys.ts";
export type { Cron, CronCounters, CronCreate, CronPatch, CronRun, CronSearch, Crons } from "./crons/mod.ts";
export type { FinishedRun } from "./engine/run-finished.ts";
export type { WorkerCounters } from "./engine/worker.ts";
export { type Environment, type LogRecord, systemEnvironment } from "./environment.ts";
export { ConfigError, type ErrorCode, InputError, type InputIssue, LeaseLost, ServiceError } from "./errors.ts";
export type {
  AuthUser,
  ChannelValue,
  CheckpointHandle,
  CheckpointReader,
  CheckpointRef,
  Command,
  DrawnGraph,
  Executor,
  ExecutorEvent,
  GraphInfo,
  GraphSchemas,
  GraphState,
  Interrupt,
  Job,
  NewCheckpoint,
  Payload,
  PendingWrite,
  RunConfig,
  Send,
  StateConfig,
  StateRef,
  StateUpdate,
  StoredCheckpoint,
  StoredWrite,
  StoreHandle,
  StoreItem,
  StoreNamespaceSearch,
  StorePut,
  StoreSearch,
  StreamMode,
  Task,
  ThreadState,
  WireCheckpoint,
} from "./executor/contract.ts";
export { combine, StateRefused } from "./executor/contract.ts";
export type {
  Feedback,
  FeedbackCreate,
  FeedbackFilter,
  FeedbackRecord,
  FeedbackToken,
  Submission,
  TokenRequest,
} from "./feedback/mod.ts";
export { type AgentEntry, type AgentFunction, type FunctionJob, fromFunctions } from "./functions/mod.ts";
export type { CorsOptions } from "./http/cors.ts";
export type { DisabledGroups, RouteGroup } from "./http/groups.ts";
export type { HttpOptions } from "./http/options.ts";
export type { HeaderChoice } from "./http/parse/headers.ts";
export type { Json, JsonObject } from "./json.ts";
export { validateOptions } from "./options.ts";
export type {
  Frame,
  FrameReader,
  Run,
  RunCancel,
  RunCreate,
  RunOrigin,
  RunStream,
  Runs,
  RunWait,
} from "./runs/mod.ts";
export {
  createService,
  type Metrics,
  type Readiness,
  type Service,
  type ServiceInfo,
  type ServiceOptions,
  VERSION,
} from "./service.ts";
export type * from "./storage/identity.ts";
export type * from "./storage/mod.ts";
export type { Condition, Filter, Scalar, Visibility } from "./storage/visibility.ts";
export type { Store, StoreIndex, StoreTtl } from "./store/mod.ts";
export type { ThreadPosition, ThreadStreamMode, ThreadStreamQuery } from "./streams/thread-subscription.ts";
export type {
  CheckpointSelector,
  HistoryQuery,
  MayCopy,
  ShownTtl,
  StateChange,
  Superstep,
  Thread,
  ThreadCreate,
  ThreadFilter,
  ThreadPatch,
  ThreadSearch,
  ThreadStorage,
  Threads,
  TimeToLive,
} from "./threads/mod.ts";
export type { Stride, Usage, UsageDimensions, UsageRecord, UsageReport, UsageRequest } from "./usage/mod.ts";
export type { Deliveries, DeliveryCounters } from "./webhooks/deliver.ts";
export type { WebhookOptions } from "./webhooks/options.ts";
export type { WebhookUrlOptions } from "./webhooks/policy.ts";
export type { OutboundRequest, Resolve, Send as SendWebhook } from "./webhooks/send.ts";
