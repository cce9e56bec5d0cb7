/** Lists of threads with their titles and pending interrupts. */

import type { InternalAssistants } from "../assistants/mod.ts";
import type { InternalResource } from "../auth/authorizer.ts";
import type { Environment } from "../environment.ts";
import type { Interrupt } from "../executor/contract.ts";
import type { WaitingFor } from "../executor/journal.ts";
import { type IsoTime, isObject, type Json, type JsonObject, type Uuid } from "../json.ts";
import { formatIsoTime } from "../rfc3339.ts";
import { type CursorPage, type CursorQuery, decodeOffset } from "../storage/cursor.ts";
import type { Scope, Storage, ThreadQuery, ThreadRow, ThreadStatus } from "../storage/mod.ts";
import type { States } from "./states.ts";

/** Filters and page of the list of threads. */
export interface ThreadListQuery extends CursorQuery {
  /** A text that the title contains, ignoring case. */
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
  /** True if the thread has pending interrupts. A stopped thread can be `interrupted` without any. */
  readonly waiting: boolean;
  /** The events or interrupts that the durable function of a busy thread waits for; absent while it executes. */
  readonly waiting_for?: readonly WaitingFor[];
  readonly graph_id: string | null;
  readonly assistant_id: string | null;
  readonly created_at: IsoTime;
  readonly updated_at: IsoTime;
  readonly state_updated_at: IsoTime;
  readonly metadata: JsonObject;
}

/** A thread with pending interrupts. */
export interface InboxThread extends Pick<ThreadSummary, "thread_id" | "title" | "graph_id" | "assistant_id"> {
  readonly since: IsoTime;
  readonly age_ms: number;
  /** The time at which the durable function continues even without resume values. */
  readonly continues_at?: IsoTime;
  readonly interrupts: readonly {
    readonly interrupt_id: string | null;
    readonly task_id: string;
    /** The name of the node, or null if the state does not contain it. */
    readonly node: string | null;
    readonly value: Json;
    /** The JSON Schema of the resume value; absent if the interrupt has none. */
    readonly response_schema?: Json;
  }[];
}

/** A page of threads with pending interrupts. `total` is the number of all such threads. */
export interface Inbox extends CursorPage<InboxThread> {
  readonly total: number;
}

/** Lists of threads with titles, and of threads that wait for an answer. */
export interface ThreadSummaries {
  /**
   * Returns threads with their titles, last changed first. Default limit: 50, at most 100. With `text`, a call reads 200 threads. Throws
   * `invalid` (the cursor).
   */
  list(query?: ThreadListQuery): Promise<CursorPage<ThreadSummary>>;
  /** Returns threads with pending interrupts, oldest first. Default limit: 20, at most 100. Throws `invalid` (the cursor). */
  inbox(query?: CursorQuery & Pick<ThreadListQuery, "assistant_id" | "graph_id">): Promise<Inbox>;
}

/** The maximum number of threads that one search for a text reads, because each may need its state. */
const MAX_SCANNED_THREADS = 200;
const MAX_PAGE_SIZE = 100;
/** The maximum number of pending runs of a thread that are read. Newer ones may be queued behind the suspended one. */
const MAX_PENDING_RUNS = 20;
const MAX_TITLE_LENGTH = 200;

/** The parts of a state that the inbox needs. */
interface InboxState {
  /** The names of nodes by task id. */
  readonly nodes: ReadonlyMap<string, string>;
  readonly title: string | null;
}

export interface ThreadSummaryOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly assistants: Pick<InternalAssistants, "findId">;
  readonly states: States;
}

/** Creates the lists of threads for people: all with titles, and those that wait for an answer. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function createThreadSummaries(options: ThreadSummaryOptions): InternalResource<ThreadSummaries> {
  const { storage, environment, assistants, states } = options;

  /** Returns the result of `read`. If that rejects for any reason, logs a warning and returns null. */
  async function tryRead<Answer>(row: ThreadRow, read: (row: ThreadRow) => Promise<Answer>): Promise<Answer | null> {
    try {
      return await states.runPaced(() => read(row));
    } catch (error) {
      environment.log({ level: "warn", message: "a state was not readable", thread_id: row.thread_id, error });
      return null;
    }
  }

  /**
   * Returns the names of the nodes by task id, and the title from the first message, null without one. Does not retain the
   * state, which may be large. Rejects if the state cannot be read.
   */
  async function readInboxState(row: ThreadRow): Promise<InboxState> {
    const state = await states.readCurrentState(row);
    const nodes = new Map(state?.tasks.map(({ id, name }) => [id, name]));
    const messages = isObject(state?.values) ? state.values.messages : null;
    return { nodes, title: extractTitle(Array.isArray(messages) ? (messages[0] ?? null) : null) };
  }

  /**
   * Returns the summary of a thread with its title, from its metadata or else its first message. For a busy thread it also has
   * what the first pending run that waits is waiting for. A state that cannot be read gives no title, and is logged.
   */
  async function readThreadSummary(scope: Scope, row: ThreadRow): Promise<ThreadSummary> {
    const title = readMetadataTitle(row) ?? extractTitle(await tryRead(row, states.readFirstMessage));
    if (row.status !== "busy") return toThreadSummary(row, title);
    const runs = await storage.listRuns(scope, row.thread_id, {
      status: "pending",
      limit: MAX_PENDING_RUNS,
      offset: 0,
    });
    const waiting_for = runs.find((run) => run.waiting_for)?.waiting_for as readonly WaitingFor[] | undefined;
    return { ...toThreadSummary(row, title), ...(waiting_for ? { waiting_for } : {}) };
  }

  /**
   * Returns the time at which the newest durable call, if it has a pending interrupt, continues by itself as `continues_at`; an
   * empty object if there is none.
   */
  async function findContinuationTime(
    scope: Scope,
    { thread_id, interrupts }: ThreadRow,
  ): Promise<Partial<InboxThread>> {
    const call = await storage.getNewestCall(scope, thread_id);
    if (!call || call.ended_at !== null || call.due_at === null || !Object.hasOwn(interrupts, call.call_id)) return {};
    return { continues_at: formatIsoTime(call.due_at) };
  }

  /**
   * Returns the metadata of the query with the ids of its graph and assistant, which runs write to their threads; null for an
   * unknown assistant.
   */
  async function toMetadataFilter({ assistant_id, graph_id, metadata }: ThreadListQuery): Promise<JsonObject | null> {
    const assistant = assistant_id === undefined ? undefined : await assistants.findId(assistant_id);
    if (assistant === null) return null;
    return {
      ...metadata,
      ...(assistant === undefined ? {} : { assistant_id: assistant }),
      ...(graph_id === undefined ? {} : { graph_id }),
    };
  }

  return {
    /**
     * Returns a page of threads with titles, last changed first; empty for an unknown assistant. With a text, a bounded number of
     * threads is searched, so a page may be short before the end. Throws `invalid`.
     */
    async list(scope, query = {}) {
      const { text, status, cursor } = query;
      const limit = Math.min(query.limit ?? 50, MAX_PAGE_SIZE);
      const metadata = await toMetadataFilter(query);
      const offset = decodeOffset(cursor);
      if (!metadata) return { items: [], next: null };
      const filter: ThreadQuery = { metadata, ...(status === undefined ? {} : { status }) };
      const maxRows = text === undefined ? limit : MAX_SCANNED_THREADS;
      const page = { sort_by: "updated_at", sort_order: "desc", limit: maxRows, offset } as const;
      const { rows } = await storage.searchThreads(scope, { ...filter, ...page });
      const searchText = text?.toLowerCase();
      const items: ThreadSummary[] = [];
      let scannedCount = 0;
      while (scannedCount < rows.length && items.length < limit) {
        const batch = rows.slice(scannedCount, scannedCount + limit - items.length);
        const summaries = await Promise.all(batch.map((row) => readThreadSummary(scope, row)));
        items.push(
          ...summaries.filter(({ title }) => searchText === undefined || title?.toLowerCase().includes(searchText)),
        );
        scannedCount += batch.length;
      }
      const hasMore = scannedCount < rows.length || rows.length === maxRows;
      return { items, next: hasMore ? `o${offset + scannedCount}` : null };
    },

    /**
     * Returns a page of the threads that wait for answers, longest first, with their interrupts. A state that cannot be read is
     * left out of its thread. Throws `invalid`.
     */
    async inbox(scope, query = {}) {
      const limit = Math.min(query.limit ?? 20, MAX_PAGE_SIZE);
      const offset = decodeOffset(query.cursor);
      const metadata = await toMetadataFilter(query);
      if (!metadata) return { items: [], total: 0, next: null };
      const page = { sort_by: "state_updated_at", sort_order: "asc", limit, offset } as const;
      const threadQuery = { metadata, status: "interrupted", waiting: true, ...page } as const;
      const { rows, total } = await storage.searchThreads(scope, threadQuery);
      const now = environment.now();
      const items = await Promise.all(
        rows.map(async (row) => ({
          ...toInboxThread(row, await tryRead(row, readInboxState), now),
          ...(await findContinuationTime(scope, row)),
        })),
      );
      return { items, total, next: offset + limit < total ? `o${offset + limit}` : null };
    },
  };
}

/** Converts a row. `waiting` is true for an interrupted thread with pending interrupts. */
function toThreadSummary(row: ThreadRow, title: string | null): ThreadSummary {
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

/**
 * Converts a thread that waits: its title, its interrupts with the nodes that raised them, and since when it waits. Without a
 * readable state nodes are null, and only metadata give a title.
 */
function toInboxThread(row: ThreadRow, state: InboxState | null, now: number): InboxThread {
  const { thread_id, graph_id, assistant_id, title } = toThreadSummary(
    row,
    readMetadataTitle(row) ?? state?.title ?? null,
  );
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

const readMetadataTitle = ({ metadata: { title } }: ThreadRow): string | null =>
  typeof title === "string" && title.trim() !== "" ? shortenTitle(title) : null;

/**
 * Returns the text of a message, in one line of limited length. The message has its JSON form, LangChain's stored form inside
 * an object that names its class, or is the content itself. Texts of several blocks are joined by a space. Returns null without
 * text.
 */
function extractTitle(message: Json): string | null {
  const fields = isObject(message) && !("content" in message) ? Object.values(message).find(isObject) : message;
  const content = isObject(fields) ? fields.content : fields;
  if (typeof content === "string") return shortenTitle(content);
  if (!Array.isArray(content)) return null;
  const texts = content.map((block) => (isObject(block) ? block.text : block));
  return shortenTitle(texts.filter((text) => typeof text === "string").join(" "));
}

/** Returns the text in one line of at most `MAX_TITLE_LENGTH` characters, or null if it is blank. */
function shortenTitle(text: string): string | null {
  const line = text
    .slice(0, 4 * MAX_TITLE_LENGTH)
    .trim()
    .replace(/\s+/g, " ");
  return line === "" ? null : line.slice(0, MAX_TITLE_LENGTH).toWellFormed();
}
