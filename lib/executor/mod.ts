/**
 * The interfaces that an agent runtime implements.
 * @module
 */
export type { Environment, KeepAlive, LogRecord } from "../environment.ts";
export type { IsoTime, Json, JsonObject, Uuid } from "../json.ts";
export type * from "../storage/spans.ts";
export type { AgentSchemas } from "./agent-schemas.ts";
export type * from "./agent-types.ts";
export * from "./contract.ts";
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
} from "./journal.ts";
export type * from "./message-types.ts";
export { recordStates } from "./state-recorder.ts";
