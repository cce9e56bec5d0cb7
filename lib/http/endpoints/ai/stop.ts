/** Stops chats: cancels the run, stores the text it has streamed, and dismisses pending interrupts. */
import { nullIfNotFound, ServiceError } from "../../../errors.ts";
import { isObject, type JsonObject } from "../../../json.ts";
import type { Run } from "../../../runs/mod.ts";
import { dismissInterrupts } from "../protocol-requests.ts";
import { type RunEvent, RunEventMapper } from "../run-events.ts";
import { isSubagent } from "./chunks.ts";
import { type ChatResources, findMessageId } from "./turn.ts";

/**
 * Cancels the running run, else the pending ones, and waits for their end. Stores their unfinished messages and dismisses pending
 * interrupts. Throws `not_found`, and `forbidden` if the caller may not change the chat.
 */
export async function stopTurn(resources: ChatResources, chat_id: string): Promise<void> {
  const { runs } = resources;
  const thread_id = await resources.threads.idOf(chat_id);
  const [running] = await runs.list(thread_id, { status: "running", limit: 1 });
  const activeRuns = running ? [running] : await runs.list(thread_id, { status: "pending", limit: 20 });
  // Cancelling a run that has ended changes nothing, but checks whether the caller may stop the chat.
  const runsToCancel = activeRuns.length > 0 ? activeRuns : await runs.list(thread_id, { limit: 1 });
  for (const { run_id } of runsToCancel) {
    await runs.cancel(thread_id, run_id, { wait: true }).catch(async (error: unknown) => {
      nullIfNotFound(error);
      // A run that still exists is hidden from changes by this caller. Another one was deleted meanwhile.
      if (await runs.get(thread_id, run_id).catch(nullIfNotFound)) throw error;
    });
  }
  for (const run of activeRuns) await storeUnfinished(resources, run);
  await dismissInterrupts(resources, thread_id);
}

/** A message that a run has streamed. */
interface StreamedMessage {
  readonly id: string;
  /** The node of the root graph that wrote it. */
  readonly node: string | null;
  text: string;
}

/**
 * Adds the unfinished messages of a stopped run to the state, as if their nodes had returned them, and ends the graph. Does
 * nothing for a state without messages, or if a queued message has started meanwhile.
 */
async function storeUnfinished(resources: ChatResources, run: Run): Promise<void> {
  if (findMessageId(run) === null) return;
  const streamedMessages = await readStreamedMessages(resources, run);
  if (streamedMessages.length === 0) return;
  const { threads } = resources;
  const { thread_id } = run;
  const state = await threads.state(thread_id).catch(nullIfNotFound);
  const { messages = null }: JsonObject = state && isObject(state.values) ? state.values : {};
  // A graph without messages in its state cannot store them.
  if (!Array.isArray(messages)) return;
  const storedIds = new Set(messages.map((message) => (isObject(message) ? message.id : null)));
  const missingMessages = streamedMessages.filter(({ id, text }) => text !== "" && !storedIds.has(id));
  if (missingMessages.length === 0) return;
  const values: JsonObject = {
    messages: missingMessages.map(({ id, text }): JsonObject => ({ type: "ai", id, content: text })),
  };
  try {
    await addAsNode(resources, thread_id, values, missingMessages.at(-1)?.node ?? null);
    const { next } = await threads.state(thread_id);
    if (next.length > 0) await threads.updateState(thread_id, { values: null, as_node: END });
  } catch (error) {
    // A queued message started first: its run continues without them.
    if (!(error instanceof ServiceError && error.reason === "thread_busy")) throw error;
  }
}

const START = "__start__";
const END = "__end__";

/**
 * Updates the state as the node. Updates it as the graph's input if `node` is null or the graph refuses what the node
 * returns as `invalid`, for example if its edges expect more.
 */
async function addAsNode(
  { threads }: ChatResources,
  thread_id: string,
  values: JsonObject,
  node: string | null,
): Promise<void> {
  if (node !== null) {
    try {
      await threads.updateState(thread_id, { values, as_node: node });
      return;
    } catch (error) {
      if (!(error instanceof ServiceError && error.code === "invalid")) throw error;
    }
  }
  await threads.updateState(thread_id, { values, as_node: START });
}

/**
 * Returns the messages that the page got from the frames of a run, without those of lost attempts. Waits for the end of
 * the run. Returns an empty list if the run was deleted.
 */
async function readStreamedMessages(
  { runs }: ChatResources,
  { thread_id, run_id }: Run,
): Promise<readonly StreamedMessage[]> {
  const runStream = await runs.joinStream(thread_id, run_id).catch(nullIfNotFound);
  if (!runStream) return [];
  const messages = new StreamedMessages();
  const events = new RunEventMapper();
  try {
    for await (const frame of runStream.frames) for (const event of events.map(frame)) messages.add(event);
  } finally {
    runStream.frames.leave();
  }
  return [...messages.byId.values()];
}

class StreamedMessages {
  readonly byId = new Map<string, StreamedMessage>();
  #last: string | null = null;
  /** The last message of an attempt, once the next attempt has started. It is lost unless that attempt continues it. */
  #lost: string | null = null;

  /**
   * Keeps the text of AI messages outside of subagents in `byId`. A message that opens in a later attempt replaces the
   * last one of the attempt before, which is lost; with the same id it is continued.
   */
  add(event: RunEvent): void {
    if (event.type === "start") this.#lost = this.#last;
    if (!("message_id" in event) || isSubagent(event.namespace)) return;
    if (event.type === "message-open" && event.role === "ai") this.#open(event);
    const message = this.byId.get(event.message_id);
    if (message && event.type === "text-delta") message.text += event.delta;
  }

  /**
   * Starts a message, or continues the one with this id. Deletes the message that an earlier attempt has lost, unless it is this
   * one.
   */
  #open({ message_id: id, namespace, node }: Extract<RunEvent, { type: "message-open" }>): void {
    if (this.#lost !== null && this.#lost !== id) this.byId.delete(this.#lost);
    [this.#last, this.#lost] = [id, null];
    if (!this.byId.has(id)) this.byId.set(id, { id, node: namespace[0]?.split(":")[0] ?? node ?? null, text: "" });
  }
}
