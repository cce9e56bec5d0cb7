/** Updates states without a run. */
import type { Environment } from "../../lib/environment.ts";
import {
  type CheckpointRef,
  type StateRef,
  type StateUpdate,
  StateUpdateError,
  type StoredCheckpoint,
} from "../../lib/executor/contract.ts";
import { createCheckpointId } from "../../lib/executor/job-checkpoints.ts";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import { nodeCommand } from "./command.ts";
import { type Graph, requireKnownNodes } from "./graph.ts";
import {
  type Checkpoint,
  readCheckpointAddress,
  requireMember,
  Saver,
  type SaverOptions,
  type Version,
} from "./saver.ts";
import { type GraphConfig, toErrorMessage } from "./serialize.ts";

/**
 * Applies updates in order, without running nodes, and returns the last checkpoint of the namespace. Throws a StateUpdateError
 * for every error of LangGraph or of the graph, and for a `goto` to an unknown node.
 */
export async function updateState(
  graph: Graph,
  { thread_id, ns, checkpoint_id }: StateRef,
  steps: readonly (readonly StateUpdate[])[],
): Promise<CheckpointRef> {
  const named = { thread_id, checkpoint_ns: ns, ...(checkpoint_id === undefined ? {} : { checkpoint_id }) };
  try {
    if (ns === "") for (const { command } of steps.flat()) requireKnownNodes(graph, command?.goto);
    const supersteps = steps.map((updates) => ({ updates: updates.map(toGraphUpdate) }));
    const { configurable } = await graph.bulkUpdateState({ configurable: named }, supersteps);
    return { ns: String(configurable?.checkpoint_ns ?? ""), checkpoint_id: String(configurable?.checkpoint_id) };
  } catch (error) {
    throw new StateUpdateError(`The graph refuses the state: ${toErrorMessage(error)}`, { cause: error });
  }
}

function toGraphUpdate(update: StateUpdate): { readonly values: unknown; readonly asNode?: string } {
  const values = toNodeValue(update);
  return update.as_node === undefined ? { values } : { values, asNode: update.as_node };
}

/** Returns the value that the node returns: the values as they are, or a command with them and its own update as pairs. */
function toNodeValue({ values, command }: StateUpdate): unknown {
  const isList = Array.isArray(values) && values.length > 0 && values.every((entry) => isObject(entry));
  if (!isList && !command) return values;
  const pairs = [values, command?.update ?? null].flatMap(toPairs);
  const { update: _, ...otherMembers } = command ?? {};
  return nodeCommand(pairs.length > 0 ? { ...otherMembers, update: pairs } : otherMembers);
}

/**
 * Returns the channels of an update with the values written to them. In a list, an object gives its members, and every
 * other element is taken as a pair without a check. Empty for other values.
 */
function toPairs(update: Json): [string, Json][] {
  if (isObject(update)) return Object.entries(update);
  if (!Array.isArray(update)) return [];
  return update.flatMap((entry) => (isObject(entry) ? Object.entries(entry) : [entry as unknown as [string, Json]]));
}

/** The saver of a state update: its checkpoints are the newest of the thread, whatever LangGraph's clock says. */
export class UpdateSaver extends Saver {
  readonly #environment: Environment;

  constructor(options: SaverOptions, environment: Environment) {
    super(options);
    this.#environment = environment;
  }

  /**
   * Stores the checkpoint of an update and returns its config. It gets a new id if a newer checkpoint exists, so that it becomes
   * the newest, and new versions of channels that finished tasks have changed. The id of an earlier run is removed from its
   * metadata.
   */
  override async put(
    config: GraphConfig,
    checkpoint: Checkpoint,
    metadata: JsonObject,
    newVersions: Readonly<Record<string, Version>>,
  ): Promise<GraphConfig> {
    const { ns, checkpoint_id, ...at } = readCheckpointAddress(config);
    const handle = this.requireHandle(requireMember(at.thread_id, "thread_id"));
    const newest = (await handle.get({ ns }))?.checkpoint_id ?? null;
    const isLate = newest !== null && checkpoint.id <= newest;
    const id = isLate ? createCheckpointId(this.#environment, newest) : checkpoint.id;
    const parent = checkpoint_id === undefined ? null : await handle.get({ ns, checkpoint_id });
    const missingVersions = parent ? this.#findMissingVersions(parent, checkpoint, newVersions) : {};
    const channel_versions = { ...checkpoint.channel_versions, ...missingVersions };
    // LangGraph may copy metadata that the previous run stored with its checkpoint.
    const { run_id: _, ...ownMetadata } = metadata;
    return await super.put(config, { ...checkpoint, id, channel_versions }, ownMetadata, {
      ...newVersions,
      ...missingVersions,
    });
  }

  /**
   * Returns new versions, by channel, for the channels whose value differs from the parent's although LangGraph has
   * kept their version: finished tasks have changed them. Omits channels in `newVersions` and compares JSON values
   * only.
   */
  #findMissingVersions(
    parent: StoredCheckpoint,
    { channel_values, channel_versions }: Checkpoint,
    newVersions: Readonly<Record<string, Version>>,
  ): Record<string, Version> {
    const before = new Map(parent.values.map(({ channel, data }) => [channel, data]));
    const sameVersionChannels = [...new Set([...before.keys(), ...Object.keys(channel_values)])].filter(
      (channel) =>
        !Object.hasOwn(newVersions, channel) &&
        toVersionText(channel_versions[channel]) === toVersionText(parent.versions[channel]),
    );
    const changedChannels = sameVersionChannels.filter((channel) => {
      const isPresent = Object.hasOwn(channel_values, channel);
      if (!isPresent || !before.has(channel)) return isPresent !== before.has(channel);
      const { data } = this.values.write(channel_values[channel], `Channel ${JSON.stringify(channel)}`);
      return typeof data === "string" && data !== before.get(channel);
    });
    return Object.fromEntries(
      changedChannels.map((channel) => [channel, this.getNextVersion(channel_versions[channel])]),
    );
  }
}

const toVersionText = (version: Version | undefined): string => String(version ?? "");
