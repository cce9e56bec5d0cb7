/** The storage verbs of assistants and their versions. */
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

/** What assistants can be sorted by. */
export type AssistantSort = "assistant_id" | "created_at" | "updated_at" | "name" | "graph_id";

/** The verbs of assistants. */
export interface AssistantStorage {
  /**
   * Creates an assistant with version 1. Guard: the id is free; else `exists` gives the row that has it. Repeating the call is safe:
   * the second one answers `exists`.
   */
  createAssistant(
    scope: Scope,
    assistant: NewAssistant,
    now: number,
  ): Promise<{ readonly kind: "created" | "exists"; readonly assistant: AssistantRow }>;
  /** Reads an assistant with its active version. Null when it does not exist or is not visible. */
  getAssistant(scope: Scope, assistant_id: string): Promise<AssistantRow | null>;
  /** Reads one page of the visible assistants that match, and the number of all matches (with `COUNT_ONLY` only the number). */
  searchAssistants(
    scope: Scope,
    query: AssistantQuery & Page & SortOptions<AssistantSort>,
  ): Promise<SearchPage<AssistantRow>>;
  /**
   * Adds a version (highest + 1) with the content that `next` returns, and makes it the active one. Guard: the revision is the one
   * that `next` got; after a concurrent change the verb reads again and calls `next` again. Null when the assistant does not exist or
   * is not visible. Not idempotent: each call adds a version.
   */
  updateAssistant(
    scope: Scope,
    assistant_id: string,
    next: (active: AssistantRow) => AssistantContent,
    now: number,
  ): Promise<AssistantRow | null>;
  /**
   * Makes a stored version the active one. Guard: the version exists, and the scope permits its metadata (`hidden` otherwise).
   * Repeating the call changes only `updated_at`.
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
   * Deletes an assistant, its versions and its crons. With `delete_threads` also the threads whose `metadata.assistant_id` names it, as
   * far as `threads` permits. False when the assistant does not exist or is not visible: nothing was deleted.
   */
  deleteAssistant(
    scope: Scope,
    assistant_id: string,
    options: { readonly delete_threads: boolean; readonly threads?: Pick<Scope, "filter"> },
  ): Promise<boolean>;
  /** Reads versions, newest first. Null when the assistant does not exist or is not visible. */
  listAssistantVersions(
    scope: Scope,
    assistant_id: string,
    query: { readonly metadata?: JsonObject } & Page,
  ): Promise<readonly AssistantVersionRow[] | null>;
}
