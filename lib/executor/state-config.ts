/** The configuration with which a graph factory builds a graph to read or draw it. */
import { isObject, type JsonObject } from "../json.ts";
import type { AssistantRow, RunRow, Scope, Storage, ThreadRow } from "../storage/mod.ts";
import type { AuthUser, RunConfig, StateConfig } from "./contract.ts";
import { headersIn, knowing, mirrored, readKwargs } from "./kwargs.ts";

/** The configuration that the graph got in this run. */
export function ofRun({ kwargs, auth_user, ...run }: RunRow): StateConfig {
  const { config, context } = mirrored(readKwargs(kwargs));
  const { configurable } = auth_user ? knowing(config, auth_user as unknown as AuthUser) : config;
  const { run_id, thread_id, assistant_id, graph_id } = run;
  const metadata = { ...headersIn(config.configurable), ...run.metadata, run_id, thread_id, assistant_id, graph_id };
  return { configurable, metadata, context };
}

/** The assistant's configuration, overridden by the thread's. */
export function ofAssistant(assistant: AssistantRow | null, kept: JsonObject = {}): StateConfig {
  const { config = {}, context = {}, metadata = {} } = assistant ?? {};
  const members = [config["configurable"], kept["configurable"]].filter((one) => one !== undefined && isObject(one));
  const ids = assistant ? { assistant_id: assistant.assistant_id, graph_id: assistant.graph_id } : {};
  const own = { configurable: Object.assign({}, ...members, ids) as JsonObject } satisfies RunConfig;
  const both = mirrored({ config: own, context });
  return { configurable: both.config.configurable, metadata, context: both.context };
}

/**
 * The configuration of the run that wrote a checkpoint. Without such a run: that of the thread's newest run of this graph, else that
 * of the assistant and the thread. It is read lazily, and once.
 */
export function stateConfigs(
  storage: Storage,
  scope: Scope,
  { thread_id, metadata, config }: Pick<ThreadRow, "thread_id" | "metadata" | "config">,
): (graph_id: string, run_id: string | null | undefined) => () => Promise<StateConfig> {
  const found = new Map<string, Promise<StateConfig>>();

  async function look(graph_id: string, run_id: string | null): Promise<StateConfig> {
    const wrote = run_id === null ? null : await storage.getRun(scope, run_id);
    if (wrote) return ofRun(wrote);
    const [newest] = await storage.listRuns(scope, thread_id, { limit: 1, offset: 0 });
    if (newest?.graph_id === graph_id) return ofRun(newest);
    const { assistant_id } = metadata;
    const assistant = typeof assistant_id === "string" ? await storage.getAssistant(scope, assistant_id) : null;
    return ofAssistant(assistant?.graph_id === graph_id ? assistant : null, config);
  }

  return (graph_id, run_id) => () => {
    const key = JSON.stringify([graph_id, run_id ?? null]);
    const known = found.get(key) ?? look(graph_id, run_id ?? null);
    found.set(key, known);
    return known;
  };
}
