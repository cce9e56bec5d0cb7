/** Tasks in the JSON of A2A 1.0, and their conversion to version 0.3. */
import type { Json, JsonObject } from "../json.ts";

/** The supported versions of the protocol, newest first. */
export const A2A_VERSIONS = ["1.0", "0.3"] as const;
export type A2aVersion = (typeof A2A_VERSIONS)[number];

export type A2aTaskState =
  | "SUBMITTED"
  | "WORKING"
  | "INPUT_REQUIRED"
  | "COMPLETED"
  | "FAILED"
  | "CANCELED"
  | "REJECTED"
  | "AUTH_REQUIRED";

/** A part: `{text}`, `{data}`, or `{raw}` and `{url}` of a file. */
export type A2aPart = JsonObject;

export interface A2aMessage {
  readonly messageId: string;
  readonly contextId: string;
  readonly taskId?: string;
  readonly role: "USER" | "AGENT";
  readonly parts: readonly A2aPart[];
}

export interface A2aTaskStatus {
  readonly state: A2aTaskState;
  readonly timestamp: string;
  readonly message?: A2aMessage;
}

export interface A2aArtifact {
  readonly artifactId: string;
  readonly name: string;
  readonly parts: readonly A2aPart[];
}

export interface A2aTask {
  readonly id: string;
  readonly contextId: string;
  readonly status: A2aTaskStatus;
  readonly artifacts?: readonly A2aArtifact[];
  readonly history?: readonly A2aMessage[];
}

type TaskIds = { readonly taskId: string; readonly contextId: string };

export type A2aStreamEvent =
  | { readonly task: A2aTask }
  | { readonly statusUpdate: TaskIds & { readonly status: A2aTaskStatus } }
  | {
      readonly artifactUpdate: TaskIds & {
        readonly artifact: A2aArtifact;
        readonly append: boolean;
        readonly lastChunk: boolean;
      };
    };

const TERMINAL_STATES: ReadonlySet<A2aTaskState> = new Set(["COMPLETED", "FAILED", "CANCELED", "REJECTED"]);

export const isTerminal = ({ state }: Pick<A2aTaskStatus, "state">): boolean => TERMINAL_STATES.has(state);

/** Returns true while a run of the task is queued or executes. */
export const isInProgress = ({ state }: Pick<A2aTaskStatus, "state">): boolean =>
  state === "SUBMITTED" || state === "WORKING";

const formatState = (state: A2aTaskState, version: A2aVersion): string =>
  version === "1.0" ? `TASK_STATE_${state}` : state.toLowerCase().replaceAll("_", "-");

/** Converts a part to version 0.3: a text, else data, else a file with its bytes, or without bytes its URL. */
const toLegacyPart = ({ text, data, raw, url, mediaType, filename }: A2aPart): JsonObject => {
  if (text !== undefined) return { kind: "text", text };
  if (data !== undefined) return { kind: "data", data };
  const fileMembers = { ...(mediaType ? { mimeType: mediaType } : {}), ...(filename ? { name: filename } : {}) };
  return {
    kind: "file",
    file: raw === undefined ? { uri: url ?? "", ...fileMembers } : { bytes: raw, ...fileMembers },
  };
};

const toPartsJson = (parts: readonly A2aPart[], version: A2aVersion): Json[] =>
  version === "1.0" ? [...parts] : parts.map(toLegacyPart);

/** Converts a message: 1.0 has roles such as `ROLE_AGENT`, 0.3 roles in lower case and a `kind`. */
function toMessageJson({ role, parts, ...rest }: A2aMessage, version: A2aVersion): JsonObject {
  const partsJson = toPartsJson(parts, version);
  if (version === "1.0") return { ...rest, role: `ROLE_${role}`, parts: partsJson };
  return { kind: "message", ...rest, role: role.toLowerCase(), parts: partsJson };
}

/** Converts a status to the JSON of a version. `message` is absent if there is none. */
const toStatusJson = ({ state, timestamp, message }: A2aTaskStatus, version: A2aVersion): JsonObject => ({
  state: formatState(state, version),
  timestamp,
  ...(message ? { message: toMessageJson(message, version) } : {}),
});

const toArtifactJson = ({ parts, ...rest }: A2aArtifact, version: A2aVersion): JsonObject => ({
  ...rest,
  parts: toPartsJson(parts, version),
});

/**
 * Converts a task to the JSON of a version; 0.3 has a `kind`. Artifacts and history are absent if the task has none; `metadata`
 * is always empty.
 */
export function toTaskJson({ id, contextId, status, artifacts, history }: A2aTask, version: A2aVersion): JsonObject {
  return {
    ...(version === "1.0" ? {} : { kind: "task" }),
    ...{ id, contextId, status: toStatusJson(status, version) },
    ...(artifacts ? { artifacts: artifacts.map((artifact) => toArtifactJson(artifact, version)) } : {}),
    ...(history ? { history: history.map((message) => toMessageJson(message, version)) } : {}),
    metadata: {},
  };
}

/**
 * Converts an event: 1.0 names it by its member (`task`, `statusUpdate`, `artifactUpdate`), 0.3 by its `kind`. In 0.3 a status
 * update has `final`, which is false while the task is in progress.
 */
export function toEventJson(event: A2aStreamEvent, version: A2aVersion): JsonObject {
  const isLegacy = version === "0.3";
  if ("task" in event) {
    const task = toTaskJson(event.task, version);
    return isLegacy ? task : { task };
  }
  if ("statusUpdate" in event) {
    const { status, ...ids } = event.statusUpdate;
    const updateJson = { ...ids, status: toStatusJson(status, version), metadata: {} };
    return isLegacy
      ? { kind: "status-update", ...updateJson, final: !isInProgress(status) }
      : { statusUpdate: updateJson };
  }
  const { artifact, ...rest } = event.artifactUpdate;
  const updateJson = { ...rest, artifact: toArtifactJson(artifact, version), metadata: {} };
  return isLegacy ? { kind: "artifact-update", ...updateJson } : { artifactUpdate: updateJson };
}
