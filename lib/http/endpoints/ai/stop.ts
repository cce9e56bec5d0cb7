/** Stops chats: the run ends, what it has written stays in the thread, and open questions are closed. */
import { nullIfNotFound, ServiceError } from "../../../errors.ts";
import { isObject, type JsonObject } from "../../../json.ts";
import type { Run } from "../../../runs/mod.ts";
import { closeQuestions } from "../calls.ts";
import { RunEventMapper } from "../run-events.ts";
import { isSubagent } from "./chunks.ts";
import { type ChatNouns, messageIdOf } from "./turn.ts";

/** Cancels the run that writes, and closes open questions. Errors: not_found, forbidden (the caller may not change the chat). */
export async function stopTurn(nouns: ChatNouns, chat_id: string): Promise<void> {
  const { runs } = nouns;
  const thread_id = await nouns.threads.idOf(chat_id);
  const [running] = await runs.list(thread_id, { status: "running", limit: 1 });
  const active = running ? [running] : await runs.list(thread_id, { status: "pending", limit: 20 });
  // Cancelling a run that has ended changes nothing, but tells whether the caller may stop the chat.
  const stopped = active.length > 0 ? active : await runs.list(thread_id, { limit: 1 });
  for (const { run_id } of stopped) {
    await runs.cancel(thread_id, run_id, { wait: true }).catch(async (error: unknown) => {
      nullIfNotFound(error);
      // A run that still exists is hidden from changes by this caller. Another one was deleted meanwhile.
      if (await runs.get(thread_id, run_id).catch(nullIfNotFound)) throw error;
    });
  }
  for (const run of active) await storeUnfinished(nouns, run);
  await closeQuestions(nouns, thread_id);
}

/** A message that a run has streamed. */
interface Streamed {
  readonly id: string;
  /** The node of the root graph that wrote it. */
  readonly node: string | null;
  text: string;
}

/** Adds the messages that a stopped run has begun to the state, as if their nodes had returned them. */
async function storeUnfinished(nouns: ChatNouns, run: Run): Promise<void> {
  if (messageIdOf(run) === null) return;
  const streamed = await readStreamed(nouns, run);
  if (streamed.length === 0) return;
  const { threads } = nouns;
  const { thread_id } = run;
  const state = await threads.state(thread_id).catch(nullIfNotFound);
  const { messages = null }: JsonObject = state && isObject(state.values) ? state.values : {};
  // A graph without messages in its state has no place for them.
  if (!Array.isArray(messages)) return;
  const storedIds = new Set(messages.map((message) => (isObject(message) ? message.id : null)));
  const missing = streamed.filter(({ id, text }) => text !== "" && !storedIds.has(id));
  if (missing.length === 0) return;
  const values: JsonObject = {
    messages: missing.map(({ id, text }): JsonObject => ({ type: "ai", id, content: text })),
  };
  try {
    await addAsNode(nouns, thread_id, values, missing.at(-1)?.node ?? null);
    const { next } = await threads.state(thread_id);
    if (next.length > 0) await threads.updateState(thread_id, { values: null, as_node: END });
  } catch (error) {
    // A queued message came first: its run answers without them.
    if (!(error instanceof ServiceError && error.reason === "thread_busy")) throw error;
  }
}

const START = "__start__";
const END = "__end__";

/** The graph may refuse what a node returns, for example where its edges expect more. As its input, it takes the same messages. */
async function addAsNode(
  { threads }: ChatNouns,
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

/** The messages that the page has from the frames of a run, without those of lost attempts. */
async function readStreamed({ runs }: ChatNouns, { thread_id, run_id }: Run): Promise<readonly Streamed[]> {
  const joined = await runs.joinStream(thread_id, run_id).catch(nullIfNotFound);
  if (!joined) return [];
  const messages = new Map<string, Streamed>();
  const events = new RunEventMapper();
  let last: string | null = null;
  let lost: string | null = null;
  try {
    for await (const frame of joined.frames) {
      for (const event of events.take(frame)) {
        if (event.type === "start") lost = last;
        if (!("message_id" in event) || isSubagent(event.namespace)) continue;
        const { message_id: id } = event;
        if (event.type === "message-open" && event.role === "ai") {
          if (lost !== null && lost !== id) messages.delete(lost);
          [last, lost] = [id, null];
          const node = event.namespace[0]?.split(":")[0] ?? event.node ?? null;
          if (!messages.has(id)) messages.set(id, { id, node, text: "" });
        }
        const message = messages.get(id);
        if (message && event.type === "text-delta") message.text += event.delta;
      }
    }
  } finally {
    joined.frames.leave();
  }
  return [...messages.values()];
}
