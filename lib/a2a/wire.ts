/** Tasks as version 1.0 of A2A writes them, and their form in version 0.3. */
import type { Json, JsonObject } from "../json.ts";

/** The versions of the protocol, newest first. */
export const VERSIONS = ["1.0", "0.3"] as const;
export type A2aVersion = (typeof VERSIONS)[number];

export type TaskState =
  | "SUBMITTED"
  | "WORKING"
  | "INPUT_REQUIRED"
  | "COMPLETED"
  | "FAILED"
  | "CANCELED"
  | "REJECTED"
  | "AUTH_REQUIRED";

/** `{text}`, `{data}`, or `{raw}` and `{url}` of a file. */
export type Part = JsonObject;

export interface Message {
  readonly messageId: string;
  readonly contextId: string;
  /** Absent for messages of earlier tasks. */
  readonly taskId?: string;
  readonly role: "USER" | "AGENT";
  readonly parts: readonly Part[];
}

export interface Status {
  readonly state: TaskState;
  readonly timestamp: string;
  readonly message?: Message;
}

export interface Artifact {
  readonly artifactId: string;
  readonly name: string;
  readonly parts: readonly Part[];
}

export interface Task {
  readonly id: string;
  readonly contextId: string;
  readonly status: Status;
  readonly artifacts?: readonly Artifact[];
  readonly history?: readonly Message[];
}

type Ids = { readonly taskId: string; readonly contextId: string };

/** One event of a stream. */
export type StreamEvent =
  | { readonly task: Task }
  | { readonly statusUpdate: Ids & { readonly status: Status } }
  | {
      readonly artifactUpdate: Ids & {
        readonly artifact: Artifact;
        readonly append: boolean;
        readonly lastChunk: boolean;
      };
    };

const ENDED: ReadonlySet<TaskState> = new Set(["COMPLETED", "FAILED", "CANCELED", "REJECTED"]);

/** The task has ended. */
export const isOver = ({ state }: Pick<Status, "state">): boolean => ENDED.has(state);

/** The task goes on by itself. */
export const isGoing = ({ state }: Pick<Status, "state">): boolean => state === "SUBMITTED" || state === "WORKING";

/** The name of a state in one version. */
const stateName = (state: TaskState, version: A2aVersion): string =>
  version === "1.0" ? `TASK_STATE_${state}` : state.toLowerCase().replaceAll("_", "-");

const legacyPart = ({ text, data, raw, url, mediaType, filename }: Part): JsonObject => {
  if (text !== undefined) return { kind: "text", text };
  if (data !== undefined) return { kind: "data", data };
  const about = { ...(mediaType ? { mimeType: mediaType } : {}), ...(filename ? { name: filename } : {}) };
  return { kind: "file", file: raw === undefined ? { uri: url ?? "", ...about } : { bytes: raw, ...about } };
};

const partsOf = (parts: readonly Part[], version: A2aVersion): Json[] =>
  version === "1.0" ? [...parts] : parts.map(legacyPart);

function messageOf({ role, parts, ...rest }: Message, version: A2aVersion): JsonObject {
  const shown = partsOf(parts, version);
  if (version === "1.0") return { ...rest, role: `ROLE_${role}`, parts: shown };
  return { kind: "message", ...rest, role: role.toLowerCase(), parts: shown };
}

const statusOf = ({ state, timestamp, message }: Status, version: A2aVersion): JsonObject => ({
  state: stateName(state, version),
  timestamp,
  ...(message ? { message: messageOf(message, version) } : {}),
});

const artifactOf = ({ parts, ...rest }: Artifact, version: A2aVersion): JsonObject => ({
  ...rest,
  parts: partsOf(parts, version),
});

/** A task in one version. */
export function taskJson({ id, contextId, status, artifacts, history }: Task, version: A2aVersion): JsonObject {
  return {
    ...(version === "1.0" ? {} : { kind: "task" }),
    ...{ id, contextId, status: statusOf(status, version) },
    ...(artifacts ? { artifacts: artifacts.map((one) => artifactOf(one, version)) } : {}),
    ...(history ? { history: history.map((one) => messageOf(one, version)) } : {}),
    metadata: {},
  };
}

/** An event in one version. */
export function eventJson(event: StreamEvent, version: A2aVersion): JsonObject {
  const isLegacy = version === "0.3";
  if ("task" in event) {
    const task = taskJson(event.task, version);
    return isLegacy ? task : { task };
  }
  if ("statusUpdate" in event) {
    const { status, ...ids } = event.statusUpdate;
    const shown = { ...ids, status: statusOf(status, version), metadata: {} };
    return isLegacy ? { kind: "status-update", ...shown, final: !isGoing(status) } : { statusUpdate: shown };
  }
  const { artifact, ...rest } = event.artifactUpdate;
  const shown = { ...rest, artifact: artifactOf(artifact, version), metadata: {} };
  return isLegacy ? { kind: "artifact-update", ...shown } : { artifactUpdate: shown };
}
