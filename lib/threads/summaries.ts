/** Threads with their titles, and the interrupts that wait for a person. */

import type { AssistantDirectory } from "../assistants/mod.ts";
import type { InternalResource } from "../auth/authorizer.ts";
import type { Environment } from "../environment.ts";
import type { Interrupt } from "../executor/contract.ts";
import type { WaitingFor } from "../executor/journal.ts";
import { type IsoTime, isObject, type Json, type JsonObject, type Uuid } from "../json.ts";
import { formatIsoTime } from "../rfc3339.ts";
import { type CursorPage, type CursorQuery, decodeOffset } from "../storage/cursor.ts";
import type { Scope, Storage, ThreadQuery, ThreadRow, ThreadStatus } from "../storage/mod.ts";
import type { States } from "./read.ts";

/** Filters and page of the list of threads. */
export interface ThreadListQuery extends CursorQuery {
  /** Contained in the title; upper and lower case are the same. */
  readonly text?: string;
  readonly status?: ThreadStatus;
  /** A UUID, or a graph id for its default assistant. */
  readonly assistant_id?: string;
  readonly graph_id?: string;
  /** Containment. */
  readonly metadata?: JsonObject;
}

/** A thread in a list; times are ISO 8601, UTC. */
export interface ThreadSummary {
  readonly thread_id: Uuid;
  /** `metadata.title`, or else the text of the first message; null without both. */
  readonly title: string | null;
  readonly status: ThreadStatus;
  /** It has open interrupts. A stopped thread can be `interrupted` without. */
  readonly waiting: boolean;
  /** What the durable function of a busy thread waits for; absent while it works. */
  readonly waiting_for?: readonly WaitingFor[];
  readonly graph_id: string | null;
  readonly assistant_id: string | null;
  readonly created_at: IsoTime;
  readonly updated_at: IsoTime;
  readonly state_updated_at: IsoTime;
  readonly metadata: JsonObject;
}

/** A thread that waits for answers. */
export interface InboxThread extends Pick<ThreadSummary, "thread_id" | "title" | "graph_id" | "assistant_id"> {
  readonly since: IsoTime;
  readonly age_ms: number;
  /** When the durable function goes on by itself, answered or not. */
  readonly continues_at?: IsoTime;
  readonly interrupts: readonly {
    readonly interrupt_id: string | null;
    readonly task_id: string;
    /** Null where the state does not name it. */
    readonly node: string | null;
    readonly value: Json;
    /** JSON Schema of the answer; absent if the interrupt has none. */
    readonly response_schema?: Json;
  }[];
}

/** `total`: the number of threads with open interrupts. */
export interface Inbox extends CursorPage<InboxThread> {
  readonly total: number;
}

export interface ThreadSummaries {
  /**
   * Threads with their titles, last changed first. Default limit: 50, at most 100. With `text`, a call reads 200 threads. Errors:
   * invalid (the cursor).
   */
  list(query?: ThreadListQuery): Promise<CursorPage<ThreadSummary>>;
  /** Threads with open interrupts, the oldest first. Default limit: 20, at most 100. Errors: invalid (the cursor). */
  inbox(query?: CursorQuery & Pick<ThreadListQuery, "assistant_id" | "graph_id">): Promise<Inbox>;
}

/** How many threads one search for a text looks at: each may need its state. */
const LOOKED_AT = 200;
const MOST = 100;
/** How many waiting runs of a thread are looked at: the newest of them may wait behind the one that is suspended. */
const RUNS = 20;
const TITLE_LENGTH = 200;

/** What the inbox shows of a state. */
interface InboxState {
  /** Names by task id. */
  readonly nodes: ReadonlyMap<string, string>;
  readonly title: string | null;
}

export interface ThreadSummaryOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly assistants: Pick<AssistantDirectory, "idOf">;
  readonly states: States;
}

// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createThreadSummaries(options: ThreadSummaryOptions): InternalResource<ThreadSummaries> {
  const { storage, environment, assistants, states } = options;

  /** What `read` gives; null where the state cannot be read, or the thread was deleted meanwhile. */
  async function readable<Answer>(row: ThreadRow, read: (row: ThreadRow) => Promise<Answer>): Promise<Answer | null> {
    try {
      return await states.paced(() => read(row));
    } catch (error) {
      environment.log({ level: "warn", message: "a state was not readable", thread_id: row.thread_id, error });
      return null;
    }
  }

  /** The state itself may be large: it is let go before the next one is read. */
  async function shownOf(row: ThreadRow): Promise<InboxState> {
    const state = await states.current(row);
    const nodes = new Map(state?.tasks.map(({ id, name }) => [id, name]));
    const messages = isObject(state?.values) ? state.values.messages : null;
    return { nodes, title: titleIn(Array.isArray(messages) ? (messages[0] ?? null) : null) };
  }

  async function titled(scope: Scope, row: ThreadRow): Promise<ThreadSummary> {
    const title = ownTitle(row) ?? titleIn(await readable(row, states.firstMessage));
    if (row.status !== "busy") return summaryOf(row, title);
    const runs = await storage.listRuns(scope, row.thread_id, { status: "pending", limit: RUNS, offset: 0 });
    const waiting_for = runs.find((run) => run.waiting_for)?.waiting_for as readonly WaitingFor[] | undefined;
    return { ...summaryOf(row, title), ...(waiting_for ? { waiting_for } : {}) };
  }

  /** A call that has ended for an ask may go on before it is answered. */
  async function continuesAt(scope: Scope, { thread_id, interrupts }: ThreadRow): Promise<Partial<InboxThread>> {
    const call = await storage.getNewestCall(scope, thread_id);
    if (!call || call.ended_at !== null || call.due_at === null || !Object.hasOwn(interrupts, call.call_id)) return {};
    return { continues_at: formatIsoTime(call.due_at) };
  }

  /** The filters on the thread's metadata, which its runs have written there; null for an assistant that does not exist. */
  async function metadataOf({ assistant_id, graph_id, metadata }: ThreadListQuery): Promise<JsonObject | null> {
    const assistant = assistant_id === undefined ? undefined : await assistants.idOf(assistant_id);
    if (assistant === null) return null;
    return {
      ...metadata,
      ...(assistant === undefined ? {} : { assistant_id: assistant }),
      ...(graph_id === undefined ? {} : { graph_id }),
    };
  }

  return {
    async list(scope, query = {}) {
      const { text, status, cursor } = query;
      const limit = Math.min(query.limit ?? 50, MOST);
      const metadata = await metadataOf(query);
      const offset = decodeOffset(cursor);
      if (!metadata) return { items: [], next: null };
      const filter: ThreadQuery = { metadata, ...(status === undefined ? {} : { status }) };
      const most = text === undefined ? limit : LOOKED_AT;
      const page = { sort_by: "updated_at", sort_order: "desc", limit: most, offset } as const;
      const { rows } = await storage.searchThreads(scope, { ...filter, ...page });
      const wanted = text?.toLowerCase();
      const items: ThreadSummary[] = [];
      let looked = 0;
      while (looked < rows.length && items.length < limit) {
        const some = rows.slice(looked, looked + limit - items.length);
        const read = await Promise.all(some.map((row) => titled(scope, row)));
        items.push(...read.filter(({ title }) => wanted === undefined || title?.toLowerCase().includes(wanted)));
        looked += some.length;
      }
      const more = looked < rows.length || rows.length === most;
      return { items, next: more ? `o${offset + looked}` : null };
    },

    async inbox(scope, query = {}) {
      const limit = Math.min(query.limit ?? 20, MOST);
      const offset = decodeOffset(query.cursor);
      const metadata = await metadataOf(query);
      if (!metadata) return { items: [], total: 0, next: null };
      const page = { sort_by: "state_updated_at", sort_order: "asc", limit, offset } as const;
      const asked = { metadata, status: "interrupted", waiting: true, ...page } as const;
      const { rows, total } = await storage.searchThreads(scope, asked);
      const now = environment.now();
      const items = await Promise.all(
        rows.map(async (row) => ({
          ...inboxThread(row, await readable(row, shownOf), now),
          ...(await continuesAt(scope, row)),
        })),
      );
      return { items, total, next: offset + limit < total ? `o${offset + limit}` : null };
    },
  };
}

function summaryOf(row: ThreadRow, title: string | null): ThreadSummary {
  const { assistant_id } = row.metadata;
  return {
    thread_id: row.thread_id,
    title,
    status: row.status,
    waiting: row.status === "interrupted" && Object.keys(row.interrupts).length > 0,
    graph_id: row.graph_id,
    assistant_id: typeof assistant_id === "string" ? assistant_id : null,
    created_at: formatIsoTime(row.created_at),
    updated_at: formatIsoTime(row.updated_at),
    state_updated_at: formatIsoTime(row.state_updated_at),
    metadata: row.metadata,
  };
}

function inboxThread(row: ThreadRow, state: InboxState | null, now: number): InboxThread {
  const { thread_id, graph_id, assistant_id, title } = summaryOf(row, ownTitle(row) ?? state?.title ?? null);
  const interrupts = Object.entries(row.interrupts).flatMap(([task_id, list]) =>
    (list as unknown as readonly Partial<Interrupt>[]).map(({ id = null, value = null, response_schema }) => ({
      ...{ interrupt_id: id, task_id, node: state?.nodes.get(task_id) ?? null, value },
      ...(response_schema === undefined ? {} : { response_schema }),
    })),
  );
  const since = row.state_updated_at;
  const age_ms = Math.max(0, now - since);
  return { thread_id, title, graph_id, assistant_id, since: formatIsoTime(since), age_ms, interrupts };
}

const ownTitle = ({ metadata: { title } }: ThreadRow): string | null =>
  typeof title === "string" && title.trim() !== "" ? shortened(title) : null;

/** The text of a message, as it is or as its graph has stored it: inside an object that names its class. */
function titleIn(message: Json): string | null {
  const fields = isObject(message) && !("content" in message) ? Object.values(message).find(isObject) : message;
  const content = isObject(fields) ? fields.content : fields;
  if (typeof content === "string") return shortened(content);
  if (!Array.isArray(content)) return null;
  const texts = content.map((block) => (isObject(block) ? block.text : block));
  return shortened(texts.filter((text) => typeof text === "string").join(" "));
}

/** In one line; null for nothing but spaces. */
function shortened(text: string): string | null {
  const line = text
    .slice(0, 4 * TITLE_LENGTH)
    .trim()
    .replace(/\s+/g, " ");
  return line === "" ? null : line.slice(0, TITLE_LENGTH).toWellFormed();
}
