/** The tree of a thread's checkpoints: which branch is shown, where it forks, and where a message appeared first. */
import type { Checkpoint as CheckpointRef } from "@langchain/langgraph-sdk";
import { client } from "../../api/client.ts";
import { type Resource, useResource } from "../../store/resource.ts";
import { type ChatMessage, findMessages } from "./messages.ts";
import type { ChatState } from "./source.ts";

export interface Checkpoint {
  readonly checkpoint_id: string;
  readonly parent_id: string | null;
  readonly created_at: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly next: readonly string[];
}

export interface History {
  /** The checkpoints, newest first. */
  readonly all: readonly Checkpoint[];
  readonly byId: ReadonlyMap<string, Checkpoint>;
  /** The children of each checkpoint by its id, oldest first. The roots have the empty id. */
  readonly children: ReadonlyMap<string, readonly Checkpoint[]>;
  readonly isWhole: boolean;
}

const MAX_CHECKPOINTS = 1000;
/** The number of checkpoints that are read again after a run, if they overlap with those read before. */
const REFRESHED_CHECKPOINTS = 100;

interface CheckpointResponse {
  readonly checkpoint: { readonly checkpoint_id: string };
  readonly parent_checkpoint: { readonly checkpoint_id: string } | null;
  readonly created_at: string;
  readonly metadata: Readonly<Record<string, unknown>> | null;
  readonly next: readonly string[];
}

/** Returns the newest checkpoints of a thread, newest first, without their values. */
async function readNewest(thread_id: string, limit: number): Promise<readonly Checkpoint[]> {
  const answers = (await client.threads.getHistory(thread_id, {
    limit,
    select: ["checkpoint", "parent_checkpoint", "created_at", "metadata", "next"] as never,
  })) as unknown as readonly CheckpointResponse[];
  return answers.map(({ checkpoint, parent_checkpoint, created_at, metadata, next }) => ({
    checkpoint_id: checkpoint.checkpoint_id,
    parent_id: parent_checkpoint?.checkpoint_id ?? null,
    created_at,
    metadata: metadata ?? {},
    next,
  }));
}

/**
 * Returns the checkpoints with indexes by id and by parent, whose children are oldest first. Those without a parent are under an
 * empty id.
 */
function toHistory(all: readonly Checkpoint[], isWhole: boolean): History {
  const children = new Map<string, Checkpoint[]>();
  for (const checkpoint of [...all].reverse()) {
    const parent = checkpoint.parent_id ?? "";
    children.set(parent, [...(children.get(parent) ?? []), checkpoint]);
  }
  return { all, byId: new Map(all.map((checkpoint) => [checkpoint.checkpoint_id, checkpoint])), children, isWhole };
}

/** The history of the thread that is open, as it was read last. */
let lastRead: { readonly thread_id: string; readonly history: History } | undefined;

/**
 * Reads the checkpoints of a thread, up to a limit; `isWhole` is false if there may be more. Keeps the result of the
 * last thread: for it, reads only the newest checkpoints and joins them to the known ones, or reads all if they do not
 * meet.
 */
async function readHistory(thread_id: string): Promise<History> {
  const before = lastRead?.thread_id === thread_id ? lastRead.history : undefined;
  let all = await readNewest(thread_id, before ? REFRESHED_CHECKPOINTS : MAX_CHECKPOINTS);
  let isWhole = all.length < (before ? REFRESHED_CHECKPOINTS : MAX_CHECKPOINTS);
  if (before && !isWhole) {
    const joint = before.all.findIndex(({ checkpoint_id }) => checkpoint_id === all.at(-1)?.checkpoint_id);
    all = joint < 0 ? await readNewest(thread_id, MAX_CHECKPOINTS) : [...all, ...before.all.slice(joint + 1)];
    isWhole = joint < 0 ? all.length < MAX_CHECKPOINTS : before.isWhole;
  }
  const history = toHistory(all, isWhole);
  lastRead = { thread_id, history };
  return history;
}

/** Reads the history of a thread, again for each `version` of the chat. A new thread has none. */
export const useHistory = (thread_id: string, { isNew, version }: ChatState): Resource<History> =>
  useResource(isNew ? null : `history/${thread_id}/${version}`, () => readHistory(thread_id));

/**
 * Returns the path to a checkpoint, oldest first; null means to the newest. It begins at the oldest checkpoint that was
 * loaded, and is empty for an unknown id.
 */
export function findPath({ all, byId }: History, checkpoint_id: string | null): readonly Checkpoint[] {
  const path: Checkpoint[] = [];
  let checkpoint = checkpoint_id === null ? all[0] : byId.get(checkpoint_id);
  while (checkpoint) {
    path.unshift(checkpoint);
    checkpoint = checkpoint.parent_id === null ? undefined : byId.get(checkpoint.parent_id);
  }
  return path;
}

/** Returns the id of the newest checkpoint by time among this one and all that descend from it. */
export function findNewestDescendant(history: History, checkpoint_id: string): string {
  const { children, byId } = history;
  const listDescendants = (id: string): readonly string[] => [
    id,
    ...(children.get(id) ?? []).flatMap((child) => listDescendants(child.checkpoint_id)),
  ];
  const getCreatedAt = (id: string): string => byId.get(id)?.created_at ?? "";
  return listDescendants(checkpoint_id).reduce((newest, id) =>
    getCreatedAt(id) >= getCreatedAt(newest) ? id : newest,
  );
}

/** The messages by checkpoint. A checkpoint never changes, so they are read once. */
const messagesByCheckpoint = new Map<string, Promise<readonly ChatMessage[]>>();

/**
 * Reads the messages at a checkpoint; empty if the state has none. Caches the promises of the last 200 reads; a failed
 * read rejects and is removed from the cache.
 */
function readMessages(thread_id: string, checkpoint_id: string): Promise<readonly ChatMessage[]> {
  const key = `${thread_id}/${checkpoint_id}`;
  const cached = messagesByCheckpoint.get(key);
  if (cached) return cached;
  const reading = client.threads
    .getState(thread_id, checkpoint_id, { select: ["values.messages"] as never })
    .then(({ values }) => findMessages(values) ?? []);
  reading.catch(() => messagesByCheckpoint.delete(key));
  messagesByCheckpoint.set(key, reading);
  if (messagesByCheckpoint.size > 200) messagesByCheckpoint.delete(messagesByCheckpoint.keys().next().value as string);
  return reading;
}

/**
 * Resolves with the first checkpoint of a path that has a message. Searches by halving, because a message stays once it
 * is added. Resolves with the last checkpoint if none has it, without a check, and with undefined for an empty path.
 */
export async function findFirstCheckpoint(
  thread_id: string,
  path: readonly Checkpoint[],
  message_id: string,
): Promise<Checkpoint | undefined> {
  let [low, high] = [0, path.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    const messages = await readMessages(thread_id, (path[middle] as Checkpoint).checkpoint_id);
    if (messages.some(({ id }) => id === message_id)) high = middle;
    else low = middle + 1;
  }
  return path[low];
}

/**
 * Resolves with the messages of the subagent that a tool call ran, from the checkpoints of its task, without those of
 * type `human`. Empty if it ran none, or if its task made several calls.
 */
export async function readSubagentMessages(
  thread_id: string,
  path: readonly Checkpoint[],
  { id: message_id, tool_call_id }: ChatMessage,
): Promise<readonly ChatMessage[]> {
  const first = message_id && (await findFirstCheckpoint(thread_id, path, message_id));
  if (!first || first.parent_id === null) return [];
  const { tasks } = (await client.threads.getState(thread_id, first.parent_id, {
    select: ["tasks"] as never,
  })) as unknown as {
    readonly tasks: readonly { readonly id: string; readonly name: string; readonly result: unknown }[];
  };
  for (const { id, name, result } of tasks) {
    const answers = findMessages(result)?.filter(({ type }) => type === "tool") ?? [];
    // A task with several calls does not say which of them ran the graph.
    if (answers.length !== 1 || answers[0]?.tool_call_id !== tool_call_id) continue;
    const checkpoint = { checkpoint_ns: `${name}:${id}` } as CheckpointRef;
    const { values } = await client.threads.getState(thread_id, checkpoint, { select: ["values.messages"] as never });
    // What it was asked is in the arguments of the call.
    return findMessages(values)?.filter(({ type }) => type !== "human") ?? [];
  }
  return [];
}

/** The versions of one message: the branches that part before it. */
export interface Fork {
  readonly index: number;
  readonly options: readonly string[];
}

/**
 * Resolves with the forks on a path, by the id of the first message that was added after the fork. `options` are the
 * ids of the sibling checkpoints, oldest first; `index` is the one on the path. Reads the messages of checkpoints at
 * forks.
 */
export async function readForks(
  thread_id: string,
  history: History,
  path: readonly Checkpoint[],
): Promise<ReadonlyMap<string, Fork>> {
  const forks = new Map<string, Fork>();
  for (const [depth, checkpoint] of path.entries()) {
    const siblings = history.children.get(checkpoint.parent_id ?? "") ?? [];
    if (siblings.length < 2) continue;
    const before = checkpoint.parent_id === null ? [] : await readMessages(thread_id, checkpoint.parent_id);
    const idsBefore = new Set(before.map(({ id }) => id));
    // The message may come some steps after the fork: first the input, then what the graph made of it.
    for (const later of path.slice(depth)) {
      const added = (await readMessages(thread_id, later.checkpoint_id)).find(({ id }) => !idsBefore.has(id));
      if (!added) continue;
      const index = siblings.indexOf(checkpoint);
      if (added.id) forks.set(added.id, { index, options: siblings.map(({ checkpoint_id }) => checkpoint_id) });
      break;
    }
  }
  return forks;
}
