/** Assistants: stored, versioned configurations of a graph. */
import type { Environment } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import { recordedState } from "../executor/checkpoints.ts";
import type { DrawnGraph, Executor, GraphSchemas, GraphState } from "../executor/contract.ts";
import { ofAssistant } from "../executor/state-config.ts";
import { isObject, type Json, type JsonObject, sameJson } from "../json.ts";
import type { AssistantContent, AssistantRow, AssistantSort, Scope, Storage } from "../storage/mod.ts";
import { permits, refuseForOthers, requireKept, type Visibility, withVisibility } from "../storage/visibility.ts";

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
  /** True for the default assistant of a graph. Every caller who may create runs may use it. */
  isDefault(id: string): Promise<boolean>;
  /** Errors: not_found (graph), conflict (id exists), bad_request. */
  create(request: AssistantCreate, visibility?: Visibility): Promise<Assistant>;
  /** Errors: not_found. */
  get(id: string, visibility?: Visibility): Promise<Assistant>;
  /** Makes a new version and activates it. Errors: not_found, bad_request. */
  update(id: string, patch: AssistantPatch, visibility?: Visibility): Promise<Assistant>;
  /** `threads` bounds the threads that go with it. Errors: not_found; conflict for a default assistant. */
  delete(
    id: string,
    options?: { readonly delete_threads?: boolean; readonly threads?: Visibility },
    visibility?: Visibility,
  ): Promise<void>;
  search(query?: AssistantSearch, visibility?: Visibility): Promise<PageOf<Assistant>>;
  count(query?: AssistantFilter, visibility?: Visibility): Promise<number>;
  /** Newest first. Errors: not_found. */
  versions(
    id: string,
    query?: { readonly metadata?: JsonObject; readonly limit?: number; readonly offset?: number },
    visibility?: Visibility,
  ): Promise<readonly AssistantVersion[]>;
  /** Activates a version with everything it holds. Errors: not_found (assistant or version). */
  setLatest(id: string, version: number, visibility?: Visibility): Promise<Assistant>;
  drawn(id: string, xray?: boolean | number, visibility?: Visibility): Promise<DrawnGraph>;
  schemas(id: string, visibility?: Visibility): Promise<GraphSchemas>;
  subgraphs(
    id: string,
    namespace?: string | null,
    recurse?: boolean,
    visibility?: Visibility,
  ): Promise<Readonly<Record<string, GraphSchemas>>>;
}

/** What the other nouns use of assistants. Every caller may run the default assistant of a graph, whatever the visibility. */
export interface AssistantDirectory extends Assistants {
  /** The active configuration when it was last read. A write that relies on it must detect a stale row. Errors: not_found. */
  recall(id: string, visibility?: Visibility): Promise<AssistantRow>;
  /** The active configuration, read now. Errors: not_found. */
  resolve(id: string, visibility?: Visibility): Promise<AssistantRow>;
  /** Makes one assistant per graph at start. Later starts change only its description, to that of the graph. */
  ensureDefaults(): Promise<void>;
}

export interface AssistantOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly executor: Executor;
  readonly environment: Environment;
}

/** How many assistants are remembered between runs. */
const RECALLED = 1_000;

export function createAssistants(options: AssistantOptions): AssistantDirectory {
  const lookup = createLookup(options);
  return {
    isDefault: lookup.isDefault,
    resolve: lookup.resolve,
    recall: lookup.recall,
    ...readVerbs(options, lookup),
    ...writeVerbs(options, lookup),
    ...graphVerbs(options, lookup),
  };
}

type Lookup = ReturnType<typeof createLookup>;

/** Finds assistants by UUID or graph id, and remembers the rows that runs use. */
function createLookup({ storage, scope, executor }: AssistantOptions) {
  const graphs = new Map(executor.graphs().map((graph) => [graph.graph_id, graph]));
  // Graph id → UUID of its default assistant.
  const defaults = new Map<string, string>();
  // The latest known rows of assistants that runs use.
  const recalled = new Map<string, AssistantRow>();

  async function idOf(id: string): Promise<string> {
    if (graphs.has(id)) {
      const known = defaults.get(id) ?? (await defaultAssistantId(id));
      defaults.set(id, known);
      return known;
    }
    return id.toLowerCase();
  }

  async function isDefault(id: string): Promise<boolean> {
    const assistant_id = await idOf(id);
    return (await Promise.all([...graphs.keys()].map(idOf))).includes(assistant_id);
  }

  /** True for the default assistant of a graph that was removed: its first version names the graph. */
  async function wasDefault(assistant_id: string): Promise<boolean> {
    if (!isNameBased(assistant_id)) return false;
    const [newest] = (await storage.listAssistantVersions(scope, assistant_id, { limit: 1, offset: 0 })) ?? [];
    if (!newest) return false;
    const oldest = { limit: 1, offset: newest.version - 1 };
    const [first] = (await storage.listAssistantVersions(scope, assistant_id, oldest)) ?? [];
    return first !== undefined && (await defaultAssistantId(first.graph_id)) === assistant_id;
  }

  /** Anybody may run a default assistant, so the filter of the call does not apply to it. */
  const visibilityToRun = async (
    assistant_id: string,
    visibility: Visibility | undefined,
  ): Promise<Visibility | undefined> =>
    visibility?.filter && (await isDefault(assistant_id)) ? undefined : visibility;

  async function found(id: string, visibility: Visibility | undefined): Promise<AssistantRow> {
    const assistant_id = await idOf(id);
    const row = await storage.getAssistant(withVisibility(scope, visibility), assistant_id);
    if (!row) {
      if (!visibility?.filter) recalled.delete(assistant_id);
      throw notFound(id);
    }
    if (recalled.size >= RECALLED && !recalled.has(assistant_id)) recalled.clear();
    recalled.set(assistant_id, row);
    return row;
  }

  async function resolve(id: string, visibility?: Visibility): Promise<AssistantRow> {
    return await found(id, await visibilityToRun(await idOf(id), visibility));
  }

  async function recall(id: string, visibility?: Visibility): Promise<AssistantRow> {
    const assistant_id = await idOf(id);
    const known = recalled.get(assistant_id);
    const applied = await visibilityToRun(assistant_id, visibility);
    return known && permits(applied?.filter, known.metadata) ? known : await found(id, applied);
  }

  return { graphs, idOf, isDefault, wasDefault, found, resolve, recall };
}

function readVerbs(
  { storage, scope }: AssistantOptions,
  { idOf, found }: Lookup,
): Pick<AssistantDirectory, "get" | "search" | "count" | "versions"> {
  return {
    get: async (id, visibility) => toAssistant(await found(id, visibility)),
    async search({ limit = 10, offset = 0, sort_by = "created_at", sort_order = "desc", ...filter } = {}, visibility) {
      const query = { ...filter, limit, offset, sort_by, sort_order };
      const { rows, total } = await storage.searchAssistants(withVisibility(scope, visibility), query);
      return { items: rows.map(toAssistant), total, next: offset + limit < total ? offset + limit : null };
    },
    count: (query = {}, visibility) => storage.countAssistants(withVisibility(scope, visibility), query),
    async versions(id, { metadata, limit = 10, offset = 0 } = {}, visibility) {
      const rows = await storage.listAssistantVersions(withVisibility(scope, visibility), await idOf(id), {
        metadata,
        limit,
        offset,
      });
      if (!rows) throw notFound(id);
      return rows.map(({ created_at, ...row }) => ({ ...row, created_at: new Date(created_at).toISOString() }));
    },
  };
}

function writeVerbs(
  { storage, scope, environment }: AssistantOptions,
  { graphs, idOf, found, isDefault, wasDefault }: Lookup,
): Pick<AssistantDirectory, "ensureDefaults" | "create" | "update" | "delete" | "setLatest"> {
  /** Copies the description of the graph to its default assistant. */
  async function describe(known: AssistantRow, description: string | null): Promise<void> {
    if (description === null || description === known.description) return;
    const next = ({ graph_id, name, config, context, metadata }: AssistantRow): AssistantContent => {
      return { graph_id, name, description, config, context, metadata };
    };
    await storage.updateAssistant(scope, known.assistant_id, next, environment.now());
  }

  return {
    async ensureDefaults() {
      const ensure = async (graph_id: string): Promise<void> => {
        const assistant_id = await idOf(graph_id);
        const known = await storage.getAssistant(scope, assistant_id);
        const { description = null } = graphs.get(graph_id) ?? {};
        if (known) return await describe(known, description);
        const named = { assistant_id, graph_id, name: graph_id, description };
        const content = { config: {}, context: {}, metadata: { created_by: "system" } };
        await storage.createAssistant(scope, { ...named, ...content }, environment.now());
      };
      await Promise.all([...graphs.keys()].map(ensure));
    },
    async create(request, visibility) {
      const { graph_id } = request;
      refuseTwoValues(request.config?.configurable, request.context);
      refuseForOthers(visibility, request.metadata ?? {});
      if (!graphs.has(graph_id)) throw new ServiceError("not_found", `Graph ${graph_id} not found`);
      const outcome = await storage.createAssistant(
        scope,
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
      const hidden = !permits(visibility?.filter, outcome.assistant.metadata);
      if (outcome.kind === "exists" && (hidden || request.if_exists !== "do_nothing")) {
        throw new ServiceError("conflict", `Assistant ${outcome.assistant.assistant_id} already exists`);
      }
      return toAssistant(outcome.assistant);
    },
    async update(id, patch, visibility) {
      if (patch.graph_id !== undefined && !graphs.has(patch.graph_id)) {
        throw new ServiceError("not_found", `Graph ${patch.graph_id} not found`);
      }
      const { config, context } = patch;
      refuseTwoValues(config?.configurable, context);
      const configured = config !== undefined || context !== undefined;
      const row = await storage.updateAssistant(
        withVisibility(scope, visibility),
        await idOf(id),
        (active) => {
          const metadata = { ...active.metadata, ...patch.metadata };
          requireKept(visibility, metadata);
          return {
            graph_id: patch.graph_id ?? active.graph_id,
            name: patch.name ?? active.name,
            description: patch.description ?? active.description,
            config: configured ? (config ?? {}) : active.config,
            context: configured ? (context ?? {}) : active.context,
            metadata,
          };
        },
        environment.now(),
      );
      if (!row) throw notFound(id);
      return toAssistant(row);
    },
    async delete(id, { delete_threads = false, threads = {} } = {}, visibility) {
      const assistant_id = await idOf(id);
      if (visibility?.filter) await found(id, visibility);
      if ((await isDefault(assistant_id)) || (await wasDefault(assistant_id))) {
        throw new ServiceError("conflict", `Assistant ${id} is the default assistant of a graph and cannot be deleted`);
      }
      const deletion = { delete_threads, threads };
      if (!(await storage.deleteAssistant(withVisibility(scope, visibility), assistant_id, deletion)))
        throw notFound(id);
    },
    async setLatest(id, version, visibility) {
      const outcome = await storage.setLatest(
        withVisibility(scope, visibility),
        await idOf(id),
        version,
        environment.now(),
      );
      switch (outcome.kind) {
        case "updated":
          return toAssistant(outcome.assistant);
        case "assistant_not_found":
          throw notFound(id);
        case "out_of_reach":
          throw new ServiceError(
            "forbidden",
            `Version ${version} of assistant ${id} would be outside what you may see`,
          );
        case "version_not_found":
          throw new ServiceError("not_found", `Assistant ${id} has no version ${version}`);
      }
    },
  };
}

/** What the executor says about the graph of an assistant. */
function graphVerbs(
  { executor }: AssistantOptions,
  { graphs, found }: Lookup,
): Pick<AssistantDirectory, "drawn" | "schemas" | "subgraphs"> {
  function stateOf(graph_id: string): GraphState {
    if (!graphs.has(graph_id)) throw new ServiceError("not_found", `Graph ${graph_id} not found`);
    return executor.state?.(graph_id) ?? recordedState;
  }

  return {
    async drawn(id, xray = false, visibility) {
      const assistant = await found(id, visibility);
      const { graph_id } = assistant;
      return await stateOf(graph_id).drawn(graph_id, xray, ofAssistant(assistant));
    },
    async schemas(id, visibility) {
      const assistant = await found(id, visibility);
      const { graph_id } = assistant;
      return await stateOf(graph_id).schemas(graph_id, ofAssistant(assistant));
    },
    async subgraphs(id, namespace = null, recurse = false, visibility) {
      const assistant = await found(id, visibility);
      const { graph_id } = assistant;
      return await stateOf(graph_id).subgraphs(graph_id, namespace, recurse, ofAssistant(assistant));
    },
  };
}

/** A graph reads either `configurable` or `context`, so a name in both must have one value. Errors: bad_request. */
export function refuseTwoValues(configurable: Json | undefined, context: JsonObject | undefined): void {
  if (!isObject(configurable)) return;
  for (const [name, value] of Object.entries(context ?? {})) {
    if (Object.hasOwn(configurable, name) && !sameJson(configurable[name] as Json, value)) {
      throw new ServiceError("bad_request", `${name} has two values: in config.configurable and in context`);
    }
  }
}

function notFound(id: string): ServiceError {
  return new ServiceError("not_found", `Assistant ${id} not found`);
}

function toAssistant({ revision: _, created_at, updated_at, ...row }: AssistantRow): Assistant {
  return { ...row, created_at: new Date(created_at).toISOString(), updated_at: new Date(updated_at).toISOString() };
}

/** True for UUIDs of version 5, which default assistants have. */
const isNameBased = (id: string): boolean => /^[^-]{8}-[^-]{4}-5/.test(id);

// Clients compute the UUID version 5 of the graph id in this name space (nearly that of URLs in RFC 4122).
const NAMESPACE = "6ba7b8219dad11d180b400c04fd430c8";

/** The id of a graph's default assistant: the same in every deployment and every server of this API. */
async function defaultAssistantId(graph_id: string): Promise<string> {
  const name = new TextEncoder().encode(graph_id);
  const bytes = new Uint8Array(16 + name.length);
  bytes.set(Array.from(NAMESPACE.matchAll(/../g), ([hex]) => Number.parseInt(hex, 16)));
  bytes.set(name, 16);
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-1", bytes)).slice(0, 16);
  hash[6] = ((hash[6] as number) & 0x0f) | 0x50;
  hash[8] = ((hash[8] as number) & 0x3f) | 0x80;
  const hex = Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
