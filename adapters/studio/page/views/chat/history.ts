/** The tree of a thread's checkpoints: which branch is shown, where it forks, and where a message appeared first. */
import type { Checkpoint as CheckpointRef } from "@langchain/langgraph-sdk";
import { client } from "../../api/client.ts";
import { type Resource, useResource } from "../../store/resource.ts";
import { type Message, messagesOf } from "./messages.ts";
import type { ChatState } from "./source.ts";

export interface Checkpoint {
  readonly checkpoint_id: string;
  readonly parent_id: string | null;
  readonly created_at: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly next: readonly string[];
}

export interface History {
  /** Newest first. */
  readonly all: readonly Checkpoint[];
  readonly byId: ReadonlyMap<string, Checkpoint>;
  /** Oldest first; of the roots under the empty name. */
  readonly children: ReadonlyMap<string, readonly Checkpoint[]>;
  readonly isWhole: boolean;
}

const MOST = 1000;
/** What is read again after a run, if it joins what was read before. */
const NEWEST = 100;

interface Answer {
  readonly checkpoint: { readonly checkpoint_id: string };
  readonly parent_checkpoint: { readonly checkpoint_id: string } | null;
  readonly created_at: string;
  readonly metadata: Readonly<Record<string, unknown>> | null;
  readonly next: readonly string[];
}

async function newest(thread_id: string, limit: number): Promise<readonly Checkpoint[]> {
  const answers = (await client.threads.getHistory(thread_id, {
    limit,
    select: ["checkpoint", "parent_checkpoint", "created_at", "metadata", "next"] as never,
  })) as unknown as readonly Answer[];
  return answers.map(({ checkpoint, parent_checkpoint, created_at, metadata, next }) => ({
    checkpoint_id: checkpoint.checkpoint_id,
    parent_id: parent_checkpoint?.checkpoint_id ?? null,
    created_at,
    metadata: metadata ?? {},
    next,
  }));
}

function historyOf(all: readonly Checkpoint[], isWhole: boolean): History {
  const children = new Map<string, Checkpoint[]>();
  for (const one of [...all].reverse()) {
    const parent = one.parent_id ?? "";
    children.set(parent, [...(children.get(parent) ?? []), one]);
  }
  return { all, byId: new Map(all.map((one) => [one.checkpoint_id, one])), children, isWhole };
}

/** The history of the thread that is open, as it was read last. */
let last: { readonly thread_id: string; readonly history: History } | undefined;

async function read(thread_id: string): Promise<History> {
  const before = last?.thread_id === thread_id ? last.history : undefined;
  let all = await newest(thread_id, before ? NEWEST : MOST);
  let isWhole = all.length < (before ? NEWEST : MOST);
  if (before && !isWhole) {
    const joint = before.all.findIndex(({ checkpoint_id }) => checkpoint_id === all.at(-1)?.checkpoint_id);
    all = joint < 0 ? await newest(thread_id, MOST) : [...all, ...before.all.slice(joint + 1)];
    isWhole = joint < 0 ? all.length < MOST : before.isWhole;
  }
  const history = historyOf(all, isWhole);
  last = { thread_id, history };
  return history;
}

/** `version` counts what changed it. A new thread has none. */
export const useHistory = (thread_id: string, { isNew, version }: ChatState): Resource<History> =>
  useResource(isNew ? null : `history/${thread_id}/${version}`, () => read(thread_id));

/** From the root to a checkpoint; to the newest by default. */
export function pathTo({ all, byId }: History, checkpoint_id: string | null): readonly Checkpoint[] {
  const path: Checkpoint[] = [];
  let at = checkpoint_id === null ? all[0] : byId.get(checkpoint_id);
  while (at) {
    path.unshift(at);
    at = at.parent_id === null ? undefined : byId.get(at.parent_id);
  }
  return path;
}

/** The newest checkpoint below one. */
export function newestBelow(history: History, checkpoint_id: string): string {
  const { children, byId } = history;
  const below = (id: string): readonly string[] => [
    id,
    ...(children.get(id) ?? []).flatMap((one) => below(one.checkpoint_id)),
  ];
  const at = (id: string): string => byId.get(id)?.created_at ?? "";
  return below(checkpoint_id).reduce((newest, id) => (at(id) >= at(newest) ? id : newest));
}

/** Checkpoints never change, so their messages are read once. */
const read_messages = new Map<string, Promise<readonly Message[]>>();

function messagesAt(thread_id: string, checkpoint_id: string): Promise<readonly Message[]> {
  const key = `${thread_id}/${checkpoint_id}`;
  const known = read_messages.get(key);
  if (known) return known;
  const reading = client.threads
    .getState(thread_id, checkpoint_id, { select: ["values.messages"] as never })
    .then(({ values }) => messagesOf(values) ?? []);
  reading.catch(() => read_messages.delete(key));
  read_messages.set(key, reading);
  if (read_messages.size > 200) read_messages.delete(read_messages.keys().next().value as string);
  return reading;
}

/** Where a message appeared first on a path: found by halving, since a message stays once it is there. */
export async function firstSeen(
  thread_id: string,
  path: readonly Checkpoint[],
  message_id: string,
): Promise<Checkpoint | undefined> {
  let [low, high] = [0, path.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    const there = await messagesAt(thread_id, (path[middle] as Checkpoint).checkpoint_id);
    if (there.some(({ id }) => id === message_id)) high = middle;
    else low = middle + 1;
  }
  return path[low];
}

/** What a subagent said, by the result of the call that ran it: the task has checkpoints of its own. Nothing if it ran none. */
export async function subagentMessages(
  thread_id: string,
  path: readonly Checkpoint[],
  { id: message_id, tool_call_id }: Message,
): Promise<readonly Message[]> {
  const seen = message_id && (await firstSeen(thread_id, path, message_id));
  if (!seen || seen.parent_id === null) return [];
  const { tasks } = (await client.threads.getState(thread_id, seen.parent_id, {
    select: ["tasks"] as never,
  })) as unknown as {
    readonly tasks: readonly { readonly id: string; readonly name: string; readonly result: unknown }[];
  };
  for (const { id, name, result } of tasks) {
    const answers = messagesOf(result)?.filter(({ type }) => type === "tool") ?? [];
    // A task with several calls does not say which of them ran the graph.
    if (answers.length !== 1 || answers[0]?.tool_call_id !== tool_call_id) continue;
    const checkpoint = { checkpoint_ns: `${name}:${id}` } as CheckpointRef;
    const { values } = await client.threads.getState(thread_id, checkpoint, { select: ["values.messages"] as never });
    // What it was asked is in the arguments of the call.
    return messagesOf(values)?.filter(({ type }) => type !== "human") ?? [];
  }
  return [];
}

/** The versions of one message: the branches that part before it. */
export interface Fork {
  readonly at: number;
  readonly options: readonly string[];
}

/** Forks on a path by the id of the message that differs there. */
export async function forksOf(
  thread_id: string,
  history: History,
  path: readonly Checkpoint[],
): Promise<ReadonlyMap<string, Fork>> {
  const forks = new Map<string, Fork>();
  for (const [index, one] of path.entries()) {
    const siblings = history.children.get(one.parent_id ?? "") ?? [];
    if (siblings.length < 2) continue;
    const before = one.parent_id === null ? [] : await messagesAt(thread_id, one.parent_id);
    const known = new Set(before.map(({ id }) => id));
    // The message may come some steps after the fork: first the input, then what the graph made of it.
    for (const later of path.slice(index)) {
      const added = (await messagesAt(thread_id, later.checkpoint_id)).find(({ id }) => !known.has(id));
      if (!added) continue;
      const at = siblings.indexOf(one);
      if (added.id) forks.set(added.id, { at, options: siblings.map(({ checkpoint_id }) => checkpoint_id) });
      break;
    }
  }
  return forks;
}
