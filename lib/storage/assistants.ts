/** The storage operations of assistants and their versions. */
import type { JsonObject } from "../json.ts";
import type {
  AssistantContent,
  AssistantRow,
  AssistantVersionRow,
  Page,
  Scope,
  SearchPage,
  SortOptions,
} from "./rows.ts";

/** An assistant to be stored. */
export interface NewAssistant extends AssistantContent {
  readonly assistant_id: string;
}

/** Filters and page of a search for assistants. */
export interface AssistantQuery {
  /** Containment on `metadata`. */
  readonly metadata?: JsonObject;
  readonly graph_id?: string;
  /** Substring of the name; the case of ASCII letters does not count. */
  readonly name?: string;
}

/** The columns that a search for assistants can sort by. */
export type AssistantSort = "assistant_id" | "created_at" | "updated_at" | "name" | "graph_id";

/** The content of the next version. `activate` false: the version is stored, and the active one stays. Default: true. */
export interface AssistantChange extends AssistantContent {
  readonly activate?: boolean | undefined;
}

/** The storage operations of assistants. */
export interface AssistantStorage {
  /**
   * Creates an assistant with version 1. If a row has the id, it writes nothing and returns that row with `exists`. A repeated call
   * is safe: it returns `exists`.
   */
  createAssistant(
    scope: Scope,
    assistant: NewAssistant,
    now: number,
  ): Promise<{ readonly kind: "created" | "exists"; readonly assistant: AssistantRow }>;
  /** Reads an assistant with its active version. Returns null if it does not exist or is not visible. */
  getAssistant(scope: Scope, assistant_id: string): Promise<AssistantRow | null>;
  /** Reads a version of an assistant. Returns null if it does not exist, or if the scope excludes its metadata. */
  getAssistantVersion(scope: Scope, assistant_id: string, version: number): Promise<AssistantVersionRow | null>;
  /** Reads one page of the visible assistants that match, and the number of all matches (with `COUNT_ONLY` only the number). */
  searchAssistants(
    scope: Scope,
    query: AssistantQuery & Page & SortOptions<AssistantSort>,
  ): Promise<SearchPage<AssistantRow>>;
  /**
   * Adds a version (highest + 1) with the content that `next` returns, and activates it unless `next` says otherwise. Writes only if
   * the revision is the one that `next` got; after a concurrent change it reads the row and calls `next` again. Returns the assistant
   * with the content, number and time of the new version, and null if the assistant does not exist or is not visible. Not
   * idempotent: each call adds a version.
   */
  updateAssistant(
    scope: Scope,
    assistant_id: string,
    next: (active: AssistantRow) => AssistantChange,
    now: number,
  ): Promise<AssistantRow | null>;
  /**
   * Activates a stored version. Returns `hidden` and writes nothing if the scope excludes the metadata of the version. A repeated
   * call changes only `updated_at`.
   */
  setLatest(
    scope: Scope,
    assistant_id: string,
    version: number,
    now: number,
  ): Promise<
    | { readonly kind: "updated"; readonly assistant: AssistantRow }
    | { readonly kind: "assistant_not_found" | "version_not_found" | "hidden" }
  >;
  /**
   * Deletes an assistant, its versions and its crons. With `delete_threads` it also deletes the threads whose
   * `metadata.assistant_id` names the assistant and that the filter of `threads` permits. Returns false and deletes nothing if the
   * assistant does not exist or is not visible.
   */
  deleteAssistant(
    scope: Scope,
    assistant_id: string,
    options: { readonly delete_threads: boolean; readonly threads?: Pick<Scope, "filter"> },
  ): Promise<boolean>;
  /** Reads versions, newest first. Returns null if the assistant does not exist or is not visible. */
  listAssistantVersions(
    scope: Scope,
    assistant_id: string,
    query: { readonly metadata?: JsonObject } & Page,
  ): Promise<readonly AssistantVersionRow[] | null>;
}
