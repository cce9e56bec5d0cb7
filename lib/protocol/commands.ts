/** What the commands of the thread event protocol do. */
import { isObject, type Json, type JsonObject } from "../json.ts";
import { withVisibility } from "../storage/visibility.ts";
import type { ThreadEvents } from "../streams/protocol.ts";
import type { ThreadDirectory } from "../threads/mod.ts";
import {
  type CommandCall,
  type CommandCaller,
  CommandError,
  type CommandResult,
  findThread,
  invalid,
  noRun,
} from "./command.ts";
import { createRunCommands, type RunCommandOptions } from "./run-commands.ts";
import { runTree } from "./tree.ts";

export interface CommandOptions extends RunCommandOptions {
  readonly threads: RunCommandOptions["threads"] & Pick<ThreadDirectory, "state" | "stateAt">;
  readonly events: RunCommandOptions["events"] & Pick<ThreadEvents, "kept">;
}

/** One call for each command. */
export function createCommands(options: CommandOptions): Readonly<Record<string, CommandCall>> {
  const { threads, events, scope } = options;
  const { start, respond } = createRunCommands(options);

  async function getTree(thread_id: string, params: JsonObject, caller: CommandCaller): Promise<CommandResult> {
    const { run_id } = params;
    if (run_id !== undefined && run_id !== null && typeof run_id !== "string") {
      throw invalid("agent.getTree: run_id must be a string.");
    }
    const scoped = withVisibility(scope, await caller.read(thread_id));
    const kept = events.kept(scoped, thread_id, { channels: ["lifecycle"], since: 1 });
    const tree = await runTree(kept, run_id?.toLowerCase());
    if (!tree) throw noRun(thread_id);
    return { result: { tree } };
  }

  async function getState(thread_id: string, params: JsonObject, caller: CommandCaller): Promise<CommandResult> {
    const { namespace = [], keys } = params;
    if (!isTexts(namespace)) throw invalid("state.get: namespace must be a list of strings.");
    if (keys !== undefined && keys !== null && !isTexts(keys)) {
      throw invalid("state.get: keys must be a list of strings.");
    }
    const visibility = await caller.read(thread_id);
    if (!(await findThread(threads, thread_id, visibility))) throw noRun(thread_id);
    const checkpoint_ns = namespace.join("|");
    const state =
      checkpoint_ns === ""
        ? await threads.state(thread_id, {}, visibility)
        : await threads.stateAt(thread_id, { checkpoint_ns }, {}, visibility);
    if (checkpoint_ns !== "" && !state.checkpoint) {
      throw new CommandError("no_such_namespace", `Thread ${thread_id} has no namespace ${checkpoint_ns}.`);
    }
    const values = isObject(state.values) && keys ? selected(state.values, keys) : state.values;
    const { checkpoint } = state;
    return {
      result: { values, checkpoint: checkpoint && { id: checkpoint.checkpoint_id, ns: checkpoint.checkpoint_ns } },
    };
  }

  async function notHere(): Promise<CommandResult> {
    throw new CommandError("not_supported", "Subscriptions need a WebSocket. Or send a POST to …/stream/events.");
  }

  return {
    "run.start": start,
    "input.respond": respond,
    "agent.getTree": getTree,
    "state.get": getState,
    "subscription.subscribe": notHere,
    "subscription.unsubscribe": notHere,
    "subscription.reconnect": notHere,
  };
}

const isTexts = (value: Json): value is string[] =>
  Array.isArray(value) && value.every((item) => typeof item === "string");

const selected = (values: JsonObject, keys: readonly string[]): JsonObject =>
  Object.fromEntries(keys.filter((key) => Object.hasOwn(values, key)).map((key) => [key, values[key] as Json]));
