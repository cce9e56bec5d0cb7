/**
 * Greenroom: an embeddable agent deployment service. Assistants, threads and runs behind one `Request → Response` handler
 * (`greenroom/server`), or called in process.
 * @module
 */
export type { Access, AuthMode, AuthOptions, Use, Visitor } from "./access.ts";
export { type AccountOptions, type Accounts, createAccounts, type Grant, type KeyCreate } from "./accounts.ts";
export type { Ambient, LogRecord } from "./ambient.ts";
export type {
  Assistant,
  AssistantCreate,
  AssistantFilter,
  AssistantPatch,
  AssistantSearch,
  Assistants,
  AssistantVersion,
  PageOf,
} from "./assistants.ts";
export { ConfigError, type ErrorCode, InputError, type InputIssue, LeaseLost, ServiceError } from "./errors.ts";
export type {
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
  StateRef,
  StoredCheckpoint,
  StoredWrite,
  StreamMode,
  Task,
  ThreadState,
  WireCheckpoint,
} from "./executor.ts";
export { combine } from "./executor.ts";
export type {
  Feedback,
  FeedbackCreate,
  FeedbackFilter,
  FeedbackRecord,
  FeedbackToken,
  Submission,
  TokenRequest,
} from "./feedback.ts";
export { type AgentEntry, type AgentFunction, type FunctionJob, fromFunctions } from "./functions/mod.ts";
export type * from "./identity.ts";
export type { Json, JsonObject } from "./json.ts";
export type * from "./platform-storage.ts";
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
export { type StaticIdentityOptions, type StaticKey, staticIdentity } from "./static-identity.ts";
export type * from "./storage.ts";
export type { ThreadPosition, ThreadStreamMode, ThreadStreamQuery } from "./thread-stream.ts";
export type {
  CheckpointSelector,
  HistoryQuery,
  Thread,
  ThreadCreate,
  ThreadFilter,
  ThreadSearch,
  Threads,
} from "./threads.ts";
export type { Stride, Usage, UsageDimensions, UsageRecord, UsageReport, UsageRequest } from "./usage.ts";
export type { Deliveries, DeliveryCounters } from "./webhooks/deliver.ts";
export type { WebhookOptions } from "./webhooks/options.ts";
export type { WebhookUrlOptions } from "./webhooks/policy.ts";
export type { OutboundRequest, Resolve, Send as SendWebhook } from "./webhooks/send.ts";
export type { WorkerCounters } from "./worker.ts";
