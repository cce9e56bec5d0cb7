/** Assistants: stored, versioned configurations of a graph. */
import type { DrawnGraph, GraphSchemas } from "./executor.ts";
import type { JsonObject } from "./json.ts";
import type { AssistantSort } from "./storage.ts";

/** An assistant as the API shows it; times are ISO 8601, UTC. */
export interface Assistant {
  readonly assistant_id: string;
  readonly graph_id: string;
  readonly name: string;
  readonly description: string | null;
  readonly config: JsonObject;
  readonly context: JsonObject;
  readonly metadata: JsonObject;
  readonly version: number;
  readonly created_at: string;
  readonly updated_at: string;
}

/** One entry of the version history. */
export type AssistantVersion = Omit<Assistant, "updated_at">;

export interface AssistantCreate {
  readonly graph_id: string;
  readonly assistant_id?: string;
  readonly config?: JsonObject;
  readonly context?: JsonObject;
  readonly metadata?: JsonObject;
  /** Default `Untitled`. */
  readonly name?: string;
  readonly description?: string;
  /** `raise` (default): conflict when the id exists; `do_nothing`: the existing assistant, unchanged. */
  readonly if_exists?: "raise" | "do_nothing";
}

/** `config` and `context` together are the configuration: with either of them the one not given becomes `{}`. */
export interface AssistantPatch {
  readonly graph_id?: string;
  readonly config?: JsonObject;
  readonly context?: JsonObject;
  /** Merged shallowly. */
  readonly metadata?: JsonObject;
  readonly name?: string;
  readonly description?: string;
}

export interface AssistantFilter {
  readonly metadata?: JsonObject;
  readonly graph_id?: string;
  readonly name?: string;
}

export interface AssistantSearch extends AssistantFilter {
  readonly limit?: number;
  readonly offset?: number;
  readonly sort_by?: AssistantSort;
  readonly sort_order?: "asc" | "desc";
}

/** One page of a search. */
export interface PageOf<Item> {
  readonly items: readonly Item[];
  /** How many match in all. */
  readonly total: number;
  /** The next offset; null on the last page. */
  readonly next: number | null;
}

/** Every method takes an assistant's UUID or, for a graph's default assistant, the graph id. */
export interface Assistants {
  /** Errors: not_found (graph), conflict (id exists). */
  create(request: AssistantCreate): Promise<Assistant>;
  /** Errors: not_found. */
  get(id: string): Promise<Assistant>;
  /** Makes a new version and activates it. Errors: not_found. */
  update(id: string, patch: AssistantPatch): Promise<Assistant>;
  /** Errors: not_found; conflict for a default assistant. */
  delete(id: string, options?: { readonly delete_threads?: boolean }): Promise<void>;
  search(query?: AssistantSearch): Promise<PageOf<Assistant>>;
  count(query?: AssistantFilter): Promise<number>;
  /** Newest first. Errors: not_found. */
  versions(
    id: string,
    query?: { readonly metadata?: JsonObject; readonly limit?: number; readonly offset?: number },
  ): Promise<readonly AssistantVersion[]>;
  /** Activates a version with everything it holds. Errors: not_found (assistant or version). */
  setLatest(id: string, version: number): Promise<Assistant>;
  drawn(id: string, xray?: boolean | number): Promise<DrawnGraph>;
  schemas(id: string): Promise<GraphSchemas>;
  subgraphs(id: string, namespace?: string | null, recurse?: boolean): Promise<Readonly<Record<string, GraphSchemas>>>;
}
