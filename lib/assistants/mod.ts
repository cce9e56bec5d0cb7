/** Assistants: stored, versioned configurations of a graph. */
import type { InternalResource } from "../auth/authorizer.ts";
import { type Environment, uuidV5 } from "../environment.ts";
import { notFoundError, nullIfNotFound, ServiceError } from "../errors.ts";
import type { DrawnGraph, Executor, GraphInfo, GraphSchemas, GraphState } from "../executor/contract.ts";
import { createAssistantStateConfig } from "../executor/job-request.ts";
import { recordedGraphState } from "../executor/recorded-states.ts";
import { isObject, type Json, type JsonObject, sameJson } from "../json.ts";
import { UUID } from "../storage/identity.ts";
import type { AssistantContent, AssistantRow, AssistantSort, Scope, Storage } from "../storage/mod.ts";
import { COUNT_ONLY } from "../storage/rows.ts";
import { matchesFilter, requireOwnMetadata, requireStillVisible } from "../storage/visibility.ts";
import { isStorable, suggestName } from "../validation.ts";

/** An assistant in its JSON form; times are ISO 8601, UTC. */
export interface Assistant extends AssistantContent {
  readonly assistant_id: string;
  readonly version: number;
  readonly created_at: string;
  readonly updated_at: string;
}

/** An entry of the version history. */
export type AssistantVersion = Omit<Assistant, "updated_at">;

/** Values of a new assistant. */
export interface AssistantCreate {
  readonly graph_id: string;
  readonly assistant_id?: string;
  readonly config?: JsonObject;
  readonly context?: JsonObject;
  readonly metadata?: JsonObject;
  /** Default `Untitled`. */
  readonly name?: string;
  readonly description?: string;
  /** `raise` (default) throws `conflict` if the id exists. `do_nothing` returns the existing assistant unchanged. */
  readonly if_exists?: "raise" | "do_nothing";
}

/** `config` and `context` form one configuration: a patch with only one of them sets the other to `{}`. */
export interface AssistantPatch {
  readonly graph_id?: string;
  readonly config?: JsonObject;
  readonly context?: JsonObject;
  /** Merged shallowly. */
  readonly metadata?: JsonObject;
  readonly name?: string;
  readonly description?: string;
  /** False: stores the version and keeps the active one. Default: true. */
  readonly activate?: boolean;
}

/** The filter of a search or count of assistants. */
export interface AssistantFilter {
  readonly metadata?: JsonObject;
  readonly graph_id?: string;
  readonly name?: string;
}

/** The filter, order and page of a search of assistants. */
export interface AssistantSearch extends AssistantFilter {
  readonly limit?: number;
  readonly offset?: number;
  readonly sort_by?: AssistantSort;
  readonly sort_order?: "asc" | "desc";
}

/** A page of a search. */
export interface PageOf<Item> {
  readonly items: readonly Item[];
  /** The number of matches on all pages. */
  readonly total: number;
  /** The next offset; null on the last page. */
  readonly next: number | null;
}

/** Every method takes an assistant's UUID or, for a graph's default assistant, the graph id. */
export interface Assistants {
  /** Creates an assistant. Throws `not_found` (graph), `conflict` (id exists) or `bad_request`. */
  create(request: AssistantCreate): Promise<Assistant>;
  /** Returns an assistant. Throws `not_found`. */
  get(id: string): Promise<Assistant>;
  /**
   * Creates a new version and activates it. With `activate: false` it only stores the version, and returns the assistant as it would be
   * with it. Throws `not_found` or `bad_request`.
   */
  update(id: string, patch: AssistantPatch): Promise<Assistant>;
  /**
   * Deletes the assistant, and with `delete_threads` the threads whose metadata names it. Throws `not_found` or `conflict` (a default
   * assistant), and deletes no thread then.
   */
  delete(id: string, options?: { readonly delete_threads?: boolean }): Promise<void>;
  search(query?: AssistantSearch): Promise<PageOf<Assistant>>;
  count(query?: AssistantFilter): Promise<number>;
  /** Returns the versions, newest first. Throws `not_found`. */
  versions(
    id: string,
    query?: { readonly metadata?: JsonObject; readonly limit?: number; readonly offset?: number },
  ): Promise<readonly AssistantVersion[]>;
  /** Activates a version, whose content replaces that of the assistant. Throws `not_found` (assistant or version) or `forbidden`. */
  setLatest(id: string, version: number): Promise<Assistant>;
  /** Returns the graph's nodes and edges. `xray` expands subgraphs; a number limits the depth. Throws `not_found`. */
  graph(id: string, xray?: boolean | number): Promise<DrawnGraph>;
  /** Returns the JSON schemas of the graph's input, output, state and configuration. Throws `not_found`. */
  schemas(id: string): Promise<GraphSchemas>;
  /** Returns the schemas of the graph's subgraphs by namespace. Throws `not_found`. */
  subgraphs(id: string, namespace?: string | null, recurse?: boolean): Promise<Readonly<Record<string, GraphSchemas>>>;
}

/** The internal resource of assistants, with the methods that other modules use. */
export interface InternalAssistants extends Omit<InternalResource<Assistants>, "delete"> {
  /** Deletes an assistant. With `delete_threads`, it deletes only those of its threads that match `threads`. */
  delete(
    scope: Scope,
    id: string,
    options?: { readonly delete_threads?: boolean; readonly threads?: Pick<Scope, "filter"> },
  ): Promise<void>;
  /**
   * Returns the cached row of an assistant, or a promise of the stored row if none is cached. A write that relies on it must detect a
   * stale row. Finds default assistants in every scope, because every caller may run them. With `version` the row has the content of
   * that version, which is read unless it is the active one. Throws `not_found`.
   */
  getCached(scope: Scope, id: string, version?: number): AssistantRow | Promise<AssistantRow>;
  /** Reads the row from the storage and caches it; with `version` it has the content of that version. Throws `not_found`. */
  resolve(scope: Scope, id: string, version?: number): Promise<AssistantRow>;
  /** Returns true for the default assistant of a graph, which every caller who may create runs may use. */
  isDefault(id: string): Promise<boolean>;
  /**
   * Returns the id of an assistant for a filter: a UUID in lower case, which is not looked up, or the id of the default
   * assistant of a graph with this name. Returns null if there is no such graph.
   */
  findId(id: string): Promise<string | null>;
  /** Creates the default assistant of each graph. Updates only the description of existing ones. */
  ensureDefaults(): Promise<void>;
}

export interface AssistantOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly executor: Executor;
  readonly environment: Environment;
}

/** The maximum number of cached assistants. */
const CACHE_SIZE = 1_000;

/** Creates the internal resource of assistants. `findId` returns null for an unknown graph, and any UUID without a check. */
export function createAssistants(options: AssistantOptions): InternalAssistants {
  const lookup = createLookup(options);
  return {
    isDefault: lookup.isDefault,
    resolve: lookup.resolve,
    getCached: lookup.getCached,
    async findId(id) {
      if (UUID.test(id)) return id.toLowerCase();
      return (await Promise.resolve(lookup.getCached(options.scope, id)).catch(nullIfNotFound))?.assistant_id ?? null;
    },
    ...createReadOperations(options, lookup),
    ...createWriteOperations(options, lookup),
    ...createGraphOperations(options, lookup),
  };
}

/** Finds assistants by UUID or graph id. */
interface Lookup extends Pick<InternalAssistants, "isDefault" | "resolve" | "getCached"> {
  readonly graphs: ReadonlyMap<string, GraphInfo>;
  /**
   * Returns the id of the default assistant for a graph id, which is derived from that, else the id in lower case. Reads
   * nothing.
   */
  resolveId(id: string): Promise<string>;
  /**
   * Returns true for the default assistant of a removed graph: its id is derived from the graph of its first version. Returns
   * false for an unknown id.
   */
  wasDefault(assistant_id: string): Promise<boolean>;
  /**
   * Reads the row from the storage and adds it to the cache, which is emptied first if it is full. Throws `not_found`; for
   * callers without a filter with a hint, and then it also removes the row from the cache.
   */
  read(scope: Scope, id: string): Promise<AssistantRow>;
}

const NEWEST_FIRST = { limit: 20, offset: 0, sort_by: "created_at", sort_order: "desc" } as const;
/** The maximum number of graphs that an error lists. */
const MAX_SUGGESTED = 10;

/** Creates the functions that find assistants by UUID or graph id. They cache the rows that runs use. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
function createLookup({ storage, scope: deploymentScope, executor }: AssistantOptions): Lookup {
  const graphs = new Map(executor.graphs().map((graph) => [graph.graph_id, graph]));
  // Graph id → UUID of its default assistant.
  const defaults = new Map<string, string>();
  const cache = new Map<string, AssistantRow>();

  async function resolveId(id: string): Promise<string> {
    if (graphs.has(id)) {
      const assistant_id = defaults.get(id) ?? (await toNameBasedId(id));
      defaults.set(id, assistant_id);
      return assistant_id;
    }
    return id.toLowerCase();
  }

  /** Returns true if the id is that of a graph or of its default assistant. */
  async function isDefault(id: string): Promise<boolean> {
    const assistant_id = await resolveId(id);
    return (await Promise.all([...graphs.keys()].map(resolveId))).includes(assistant_id);
  }

  async function wasDefault(assistant_id: string): Promise<boolean> {
    if (!isUuidV5(assistant_id)) return false;
    const [newest] =
      (await storage.listAssistantVersions(deploymentScope, assistant_id, { limit: 1, offset: 0 })) ?? [];
    if (!newest) return false;
    const oldest = { limit: 1, offset: newest.version - 1 };
    const [first] = (await storage.listAssistantVersions(deploymentScope, assistant_id, oldest)) ?? [];
    return first !== undefined && (await toNameBasedId(first.graph_id)) === assistant_id;
  }

  /** Returns the scope in which a run may use the assistant. Filters do not apply to default assistants. */
  const scopeToRun = async (scope: Scope, assistant_id: string): Promise<Scope> =>
    scope.filter && (await isDefault(assistant_id)) ? deploymentScope : scope;

  /**
   * Returns the end of the error text about an unknown assistant: the id of the newest assistant with this name, a similar
   * graph, or a list of graphs. Returns an empty string for a UUID. Call it only without a filter, because it names assistants.
   */
  async function suggestAssistant(scope: Scope, id: string): Promise<string> {
    if (UUID.test(id) || !isStorable(id)) return "";
    const { rows } = await storage.searchAssistants(scope, { name: id, ...NEWEST_FIRST });
    const namesake = rows.find(({ name }) => name === id);
    if (namesake) return `; the assistant named ${id} has the id ${namesake.assistant_id}`;
    const names = [...graphs.keys()];
    const listed = names.slice(0, MAX_SUGGESTED).join(", ") + (names.length > MAX_SUGGESTED ? " and more" : "");
    return suggestName(id, names, `; graphs: ${listed}`);
  }

  async function read(scope: Scope, id: string): Promise<AssistantRow> {
    const assistant_id = await resolveId(id);
    const row = await storage.getAssistant(scope, assistant_id);
    if (!row) {
      if (scope.filter) throw notFoundError("assistant", id);
      cache.delete(assistant_id);
      const hint = await suggestAssistant(scope, id);
      throw notFoundError("assistant", id, hint);
    }
    if (cache.size >= CACHE_SIZE && !cache.has(assistant_id)) cache.clear();
    cache.set(assistant_id, row);
    return row;
  }

  /**
   * Reads the row of an assistant by UUID or graph id, and caches it. Default assistants are found with any filter. With
   * `version` the row has the content of that version. Throws `not_found`.
   */
  const resolve = async (scope: Scope, id: string, version?: number): Promise<AssistantRow> =>
    withVersion(scope, id, read(await scopeToRun(scope, await resolveId(id)), id), version);

  function getCached(scope: Scope, id: string, version?: number): AssistantRow | Promise<AssistantRow> {
    const cached = scope.filter ? undefined : cache.get(defaults.get(id) ?? id.toLowerCase());
    const active = cached ?? getCachedInScope(scope, id);
    return version ? withVersion(scope, id, active, version) : active;
  }

  /** Returns the active row, with the content of `version` if that is another one. Throws `not_found`. */
  async function withVersion(
    scope: Scope,
    id: string,
    found: AssistantRow | Promise<AssistantRow>,
    version?: number,
  ): Promise<AssistantRow> {
    const active = await found;
    if (!version || version === active.version) return active;
    const runScope = await scopeToRun(scope, active.assistant_id);
    return await (await import("./version.ts")).readVersion(storage, runScope, { id, active, version });
  }

  /**
   * Returns the cached row if it is in the scope, else reads it. The row can be older than the stored one. Throws `not_found`.
   */
  async function getCachedInScope(scope: Scope, id: string): Promise<AssistantRow> {
    const assistant_id = await resolveId(id);
    const cached = cache.get(assistant_id);
    const runScope = await scopeToRun(scope, assistant_id);
    return cached && matchesFilter(runScope.filter, cached.metadata) ? cached : await read(runScope, id);
  }

  return { graphs, resolveId, isDefault, wasDefault, read, resolve, getCached };
}

/** Creates the operations that read assistants. Reads of an unknown one throw `not_found`; searches are empty. */
function createReadOperations(
  { storage }: AssistantOptions,
  { resolveId, read }: Lookup,
): Pick<InternalAssistants, "get" | "search" | "count" | "versions"> {
  return {
    get: async (scope, id) => toAssistant(await read(scope, id)),
    /**
     * Returns a page of assistants, the newest first and 10 without other options, with the total and the next offset, null at
     * the end.
     */
    async search(scope, { limit = 10, offset = 0, sort_by = "created_at", sort_order = "desc", ...filter } = {}) {
      const { rows, total } = await storage.searchAssistants(scope, { ...filter, limit, offset, sort_by, sort_order });
      return { items: rows.map(toAssistant), total, next: offset + limit < total ? offset + limit : null };
    },
    count: async (scope, query = {}) => (await storage.searchAssistants(scope, { ...query, ...COUNT_ONLY })).total,
    /** Returns versions of an assistant, newest first, 10 without a limit. Throws `not_found`. */
    async versions(scope, id, { metadata, limit = 10, offset = 0 } = {}) {
      const rows = await storage.listAssistantVersions(scope, await resolveId(id), { metadata, limit, offset });
      if (!rows) throw notFoundError("assistant", id);
      return rows.map(({ created_at, ...row }) => ({ ...row, created_at: new Date(created_at).toISOString() }));
    },
  };
}

/** Creates the operations that write assistants and their versions. */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
function createWriteOperations(
  { storage, scope: deploymentScope, environment }: AssistantOptions,
  { graphs, resolveId, read, isDefault, wasDefault }: Lookup,
): Pick<InternalAssistants, "ensureDefaults" | "create" | "update" | "delete" | "setLatest"> {
  /**
   * Stores the description of the graph with its default assistant, as a new version. Does nothing if it is null or unchanged.
   */
  async function updateDescription(assistant: AssistantRow, description: string | null): Promise<void> {
    if (description === null || description === assistant.description) return;
    const next = ({ graph_id, name, config, context, metadata }: AssistantRow): AssistantContent => {
      return { graph_id, name, description, config, context, metadata };
    };
    await storage.updateAssistant(deploymentScope, assistant.assistant_id, next, environment.now());
  }

  return {
    /** Creates the default assistant of each graph that has none, and updates the descriptions of the others, all at once. */
    async ensureDefaults() {
      /** Creates the default assistant of the graph, unless it exists: then only its description is updated. */
      const ensure = async (graph_id: string): Promise<void> => {
        const assistant_id = await resolveId(graph_id);
        const existing = await storage.getAssistant(deploymentScope, assistant_id);
        const { description = null } = graphs.get(graph_id) ?? {};
        if (existing) return await updateDescription(existing, description);
        const identity = { assistant_id, graph_id, name: graph_id, description };
        const content = { config: {}, context: {}, metadata: { created_by: "system" } };
        await storage.createAssistant(deploymentScope, { ...identity, ...content }, environment.now());
      };
      await Promise.all([...graphs.keys()].map(ensure));
    },
    /**
     * Creates an assistant. Returns the existing one, unchanged, for `if_exists: "do_nothing"`; throws `already_exists`
     * otherwise and if it is not visible to the caller. Throws `not_found` for an unknown graph, `forbidden` for metadata with
     * which the caller could not see it, and `bad_request` for contradicting configuration.
     */
    async create(scope, request) {
      const { graph_id } = request;
      requireConsistentConfig(request.config?.configurable, request.context);
      requireOwnMetadata(scope, request.metadata ?? {});
      if (!graphs.has(graph_id)) throw notFoundError("graph", graph_id);
      const result = await storage.createAssistant(
        deploymentScope,
        {
          assistant_id: request.assistant_id?.toLowerCase() ?? environment.uuid(),
          graph_id,
          name: request.name ?? "Untitled",
          description: request.description ?? null,
          config: request.config ?? {},
          context: request.context ?? {},
          metadata: request.metadata ?? {},
        },
        environment.now(),
      );
      // An assistant that the caller cannot see stays a conflict, also with if_exists `do_nothing`.
      const isHidden = !matchesFilter(scope.filter, result.assistant.metadata);
      if (result.kind === "exists" && (isHidden || request.if_exists !== "do_nothing")) {
        throw new ServiceError("already_exists", `Assistant ${result.assistant.assistant_id} already exists`);
      }
      return toAssistant(result.assistant);
    },
    /**
     * Stores a new version, which is active unless `activate` is false. Metadata is merged; config and context are replaced together if one of them is sent; other
     * undefined members stay. Throws `not_found` for assistant or graph, `forbidden` or `bad_request`.
     */
    async update(scope, id, patch) {
      if (patch.graph_id !== undefined && !graphs.has(patch.graph_id)) throw notFoundError("graph", patch.graph_id);
      const { config, context } = patch;
      requireConsistentConfig(config?.configurable, context);
      const isReconfigured = config !== undefined || context !== undefined;
      const row = await storage.updateAssistant(
        scope,
        await resolveId(id),
        (active) => {
          const metadata = { ...active.metadata, ...patch.metadata };
          requireStillVisible(scope, metadata);
          return {
            graph_id: patch.graph_id ?? active.graph_id,
            name: patch.name ?? active.name,
            description: patch.description ?? active.description,
            config: isReconfigured ? (config ?? {}) : active.config,
            context: isReconfigured ? (context ?? {}) : active.context,
            metadata,
            activate: patch.activate,
          };
        },
        environment.now(),
      );
      if (!row) throw notFoundError("assistant", id);
      return toAssistant(row);
    },
    /**
     * Deletes an assistant with its versions and crons, with `delete_threads` also the threads that `threads` permits. Throws
     * `default_assistant` for one of a graph, also of a removed one, and `not_found`.
     */
    async delete(scope, id, { delete_threads = false, threads = {} } = {}) {
      const assistant_id = await resolveId(id);
      if (scope.filter) await read(scope, id);
      if ((await isDefault(assistant_id)) || (await wasDefault(assistant_id))) {
        throw new ServiceError(
          "default_assistant",
          `Assistant ${id} is the default assistant of a graph and cannot be deleted`,
        );
      }
      if (!(await storage.deleteAssistant(scope, assistant_id, { delete_threads, threads })))
        throw notFoundError("assistant", id);
    },
    /**
     * Makes an earlier version the active one and returns the assistant. Throws `not_found` for assistant or version, and
     * `forbidden` if the filter excludes that version.
     */
    async setLatest(scope, id, version) {
      const result = await storage.setLatest(scope, await resolveId(id), version, environment.now());
      switch (result.kind) {
        case "updated":
          return toAssistant(result.assistant);
        case "assistant_not_found":
          throw notFoundError("assistant", id);
        case "hidden":
          throw new ServiceError("forbidden", `Version ${version} of assistant ${id} has metadata outside your access`);
        case "version_not_found":
          throw new ServiceError("not_found", `Assistant ${id} has no version ${version}`);
      }
    },
  };
}

/**
 * Creates the operations that describe the graph of an assistant. They throw `not_found` for an unknown assistant, and for one
 * whose graph this deployment does not have.
 */
function createGraphOperations(
  { executor }: AssistantOptions,
  { graphs, read }: Lookup,
): Pick<InternalAssistants, "graph" | "schemas" | "subgraphs"> {
  /**
   * Returns the functions that read the states of a graph; those for recorded states if the executor has none. Throws
   * `not_found` if this deployment does not have the graph.
   */
  function requireGraphState(graph_id: string): GraphState {
    if (!graphs.has(graph_id)) throw notFoundError("graph", graph_id);
    return executor.state?.(graph_id) ?? recordedGraphState;
  }

  return {
    /**
     * Returns the nodes and edges of the assistant's graph, read with its configuration. `xray` draws subgraphs in place of
     * their nodes: to any depth if it is true, else to this depth.
     */
    async graph(scope, id, xray = false) {
      const assistant = await read(scope, id);
      const { graph_id } = assistant;
      return await requireGraphState(graph_id).graph(graph_id, xray, createAssistantStateConfig(assistant));
    },
    /** Returns the JSON Schemas of the assistant's graph, read with its configuration. */
    async schemas(scope, id) {
      const assistant = await read(scope, id);
      const { graph_id } = assistant;
      return await requireGraphState(graph_id).schemas(graph_id, createAssistantStateConfig(assistant));
    },
    /**
     * Returns the schemas of the subgraphs of the assistant's graph by namespace: of one namespace, or of all if it is null,
     * with `recurse` also of those inside subgraphs.
     */
    async subgraphs(scope, id, namespace = null, recurse = false) {
      const assistant = await read(scope, id);
      const { graph_id } = assistant;
      return await requireGraphState(graph_id).subgraphs(
        graph_id,
        namespace,
        recurse,
        createAssistantStateConfig(assistant),
      );
    },
  };
}

/** Throws `bad_request` if a name has different values in `configurable` and `context`: a graph reads only one of them. */
export function requireConsistentConfig(configurable: Json | undefined, context: JsonObject | undefined): void {
  if (!isObject(configurable)) return;
  for (const [name, value] of Object.entries(context ?? {})) {
    if (Object.hasOwn(configurable, name) && !sameJson(configurable[name] as Json, value)) {
      throw new ServiceError("bad_request", `${name} has two values: in config.configurable and in context`);
    }
  }
}

function toAssistant({ revision: _, created_at, updated_at, ...row }: AssistantRow): Assistant {
  return { ...row, created_at: new Date(created_at).toISOString(), updated_at: new Date(updated_at).toISOString() };
}

const isUuidV5 = (id: string): boolean => /^[^-]{8}-[^-]{4}-5/.test(id);

// Clients compute the UUID version 5 of the graph id in this namespace. It differs in one byte from RFC 4122's for URLs.
const NAMESPACE = "6ba7b821-9dad-11d1-80b4-00c04fd430c8";

/** Returns the UUID version 5 of a text. Applied to a graph id, it is the id of the default assistant on every server of this API. */
export const toNameBasedId = (text: string): Promise<string> => uuidV5(NAMESPACE, text);
