/**
 * Greenroom: an embeddable agent deployment service. Assistants, threads and runs behind one `Request → Response` handler
 * (`greenroom/server`), or called in process.
 * @module
 */
export type { Assistant, AssistantCreate, Assistants, AssistantVersion, PageOf } from "./assistants/mod.ts";
export { type Accounts, createAccounts } from "./auth/accounts.ts";
export { type Auth, type AuthClaims, type AuthUserOf, defineAuth, type SdkAuth } from "./auth/custom.ts";
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
export { type StaticIdentityOptions, staticIdentity } from "./auth/static-keys.ts";
export type { Cron, CronCreate, Crons } from "./crons/mod.ts";
export type { FinishedRun } from "./engine/finished-runs.ts";
export type { Environment, LogRecord } from "./environment.ts";
export { ConfigError, type ErrorCode, InputError, type InputIssue, LeaseLost, ServiceError } from "./errors.ts";
export type { AgentSchemas } from "./executor/agent-schemas.ts";
export type { AgentSettings } from "./executor/agent-settings.ts";
export type {
  AgentError,
  AsJson,
  Check,
  CheckedAgents,
  Graphs,
  GraphsOf,
  MergedGraphs,
  NamedGraphs,
  NotJson,
  Schema,
  Simplify,
  Untyped,
  Wire,
  WireOf,
} from "./executor/agent-types.ts";
export type {
  AuthUser,
  Executor,
  ModelUsage,
  RunConfig,
  StoreHandle,
  StoreItem,
  ThreadState,
} from "./executor/contract.ts";
export { combine } from "./executor/contract.ts";
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
export type { Feedback, FeedbackCreate, FeedbackRecord, FeedbackToken } from "./feedback/mod.ts";
export type {
  AgentFunction,
  AgentResult,
  FunctionJob,
  Interrupted,
  JobTypes,
  UntypedJob,
  UpdateOf,
  Yielded,
} from "./functions/function-job.ts";
export {
  type Agent,
  type AgentDefinition,
  type AgentOptions,
  agent,
  fromFunctions,
  type JobOf,
  type WireFor,
} from "./functions/mod.ts";
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
export { RunFailed } from "./handles/run-failed.ts";
export type {
  AgentCalls,
  AgentHandle,
  AgentState,
  CallOptions,
  CallSettings,
  FailedOutcome,
  OpenInterrupt,
  Outcome,
  Rest,
  RunFrames,
  RunRef,
  StartedRun,
  StreamFrame,
  StreamOptions,
  TypedRuns,
} from "./handles/types.ts";
export type { Json, JsonObject } from "./json.ts";
export type { CorsOptions, HttpOptions } from "./options/http.ts";
export { validateOptions } from "./options.ts";
export type { CommandResponse, ProtocolEvent } from "./protocol/mod.ts";
export type { Frame, Run, RunCreate, RunStream, Runs, RunWait } from "./runs/mod.ts";
export type { AgentResources } from "./service/agent-resources.ts";
export {
  createService,
  type Metrics,
  type Readiness,
  type Service,
  type ServiceInfo,
  type ServiceOptions,
  VERSION,
} from "./service.ts";
export type { Store, StoreIndex, StoreTtl } from "./store/mod.ts";
export type { StateChange, Thread, ThreadCreate, Threads } from "./threads/mod.ts";
export type { Usage, UsageReport, UsageRequest } from "./usage/mod.ts";
export type { WebhookOptions } from "./webhooks/options.ts";
export type { Webhooks } from "./webhooks/sender.ts";
