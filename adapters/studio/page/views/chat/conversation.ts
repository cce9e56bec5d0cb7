/** Builds a conversation from the events of a thread, over the state that was read before them. */
import type { ThreadEvent } from "../../api/events.ts";
import { type ChatMessage, findMessages } from "./messages.ts";
import type { Nested } from "./source.ts";
import { type MessageEvent, StreamedMessage } from "./streamed-message.ts";

interface ToolData {
  readonly event: string;
  readonly tool_call_id: string;
}

interface LifecycleData {
  readonly event: string;
  readonly error?: string;
  readonly graph_name?: string;
  readonly cause?: { readonly type: string; readonly tool_call_id?: string };
}

interface Subagent {
  readonly name: string;
  /** The tool call that started it. */
  readonly call: string | undefined;
  readonly messages: Map<string, StreamedMessage>;
  isOver: boolean;
}

const isRoot = ({ params }: ThreadEvent): boolean => params.namespace.length === 0;

const START_EVENTS: ReadonlySet<string> = new Set(["running", "started"]);

/** Returns true for the event that ends a run of the thread. */
export const isRunEnd = (event: ThreadEvent): boolean =>
  event.method === "lifecycle" && isRoot(event) && !START_EVENTS.has((event.params.data as LifecycleData).event);

export class Conversation {
  values: unknown = null;
  run_id: string | null = null;
  error: string | null = null;
  #complete: readonly ChatMessage[] | null = null;
  /** The messages that are not in the values yet, in order of arrival: sent messages, and those that stream. */
  #pending = new Map<string, ChatMessage | StreamedMessage>();
  readonly #nested = new Map<string, Subagent>();
  readonly #startTimes = new Map<string, number>();
  readonly #times = new Map<string, number>();

  /**
   * Replaces the values with those of an idle thread, sets `run_id` to null, and removes what was streamed and is not in them.
   * Keeps `error`.
   */
  settle(values: unknown): void {
    this.#setValues(values);
    this.run_id = null;
    this.#removeStreamed();
  }

  /**
   * Removes streamed messages that no state has confirmed, and subagents without a tool call. Messages that the person
   * sent stay, and so do subagents of tool calls, because the values do not contain their messages.
   */
  #removeStreamed(): void {
    for (const [key, message] of this.#pending) if (message instanceof StreamedMessage) this.#pending.delete(key);
    for (const [scope, { call }] of this.#nested) if (!call) this.#nested.delete(scope);
  }

  /**
   * Replaces the values and the complete messages. Removes pending messages that the state has, and those without an
   * id.
   */
  #setValues(values: unknown): void {
    this.values = values;
    this.#complete = findMessages(values);
    const completeIds = new Set(this.#complete?.map(({ id }) => id));
    for (const [key, message] of this.#pending)
      if (!message.id || completeIds.has(message.id)) this.#pending.delete(key);
  }

  /**
   * Adds the messages of a sent turn, and removes the error. `after` replaces the messages of the values before them; all stay by
   * default.
   */
  send(added: readonly ChatMessage[], after?: readonly ChatMessage[]): void {
    this.error = null;
    if (after) this.#complete = after;
    for (const [index, message] of added.entries()) this.#pending.set(message.id ?? `sent ${index}`, message);
  }

  /** Removes the messages of a sent turn that the server refused. */
  unsend(): void {
    for (const [key, message] of this.#pending) if (!(message instanceof StreamedMessage)) this.#pending.delete(key);
  }

  /** Takes over an event: states, messages, tool times, starts and ends. Ignores others, and states of subgraphs. */
  handleEvent(event: ThreadEvent): void {
    const { data, timestamp, namespace } = event.params;
    if (event.method === "values") {
      if (isRoot(event)) this.#setValues(data);
    } else if (event.method === "messages") this.#handleMessage(namespace, data as MessageEvent);
    else if (event.method === "tools") this.#handleTool(data as ToolData, timestamp);
    else if (event.method === "lifecycle") this.#handleLifecycle(event, data as LifecycleData);
  }

  /**
   * Notes the start of subagents that a tool call started, and the end of all. A start of the run sets `run_id` from the id of
   * the event, null without it, and removes the error and what an earlier attempt has streamed; a failure sets the error.
   */
  #handleLifecycle(event: ThreadEvent, { event: kind, error, graph_name = "", cause }: LifecycleData): void {
    if (!isRoot(event)) {
      const scope = event.params.namespace.join("|");
      const subagent = this.#nested.get(scope);
      const call = cause?.tool_call_id;
      if (call) this.#nested.set(scope, { name: graph_name, call, messages: new Map(), isOver: false });
      else if (subagent && !START_EVENTS.has(kind)) subagent.isOver = true;
    } else if (START_EVENTS.has(kind)) {
      this.run_id = /^synth:([^:]+):/.exec(event.event_id)?.[1] ?? null;
      this.error = null;
      // Another attempt says again what the one before it did not complete.
      this.#removeStreamed();
    } else if (kind === "failed") this.error = error ?? "The run failed";
  }

  /**
   * Adds a part to a streamed message, of the graph or of a subagent. A subagent that is not known yet is added, named after its
   * node and without a tool call. Parts of a message without a start are ignored.
   */
  #handleMessage(namespace: readonly string[], data: MessageEvent): void {
    const key = data.run_id ?? namespace.join("|");
    const [scope = ""] = namespace;
    let messages: Map<string, ChatMessage | StreamedMessage> = this.#pending;
    // The first segment is the node of the graph itself.
    if (namespace.length > 1) {
      const name = scope.split(":")[0] ?? scope;
      const subagent = this.#nested.get(scope) ?? { name, call: undefined, messages: new Map(), isOver: false };
      this.#nested.set(scope, subagent);
      messages = subagent.messages;
    }
    if (data.event === "message-start") messages.set(key, new StreamedMessage(data));
    const message = messages.get(key);
    if (message instanceof StreamedMessage) message.handleEvent(data);
  }

  /**
   * Records when a tool starts, and the milliseconds it took once it finishes or fails. Ignores an end without a start.
   */
  #handleTool({ event, tool_call_id }: ToolData, timestamp: number): void {
    const since = this.#startTimes.get(tool_call_id);
    if (event === "tool-started") this.#startTimes.set(tool_call_id, timestamp);
    else if (since !== undefined && event !== "tool-output-delta") this.#times.set(tool_call_id, timestamp - since);
  }

  get messages(): readonly ChatMessage[] | null {
    const completeIds = new Set(this.#complete?.map(({ id }) => id));
    const added = [...this.#pending.values()]
      .filter(({ id }) => !id || !completeIds.has(id))
      .map((message) => (message instanceof StreamedMessage ? message.message : message));
    if (added.length === 0) return this.#complete;
    return [...(this.#complete ?? []), ...added];
  }

  get nested(): ReadonlyMap<string, Nested> {
    return new Map(
      [...this.#nested].map(([scope, { name, call, messages, isOver }]) => [
        scope,
        { name, call, isOver, messages: [...messages.values()].map(({ message }) => message) },
      ]),
    );
  }

  /** The durations of tool calls by their ids, in milliseconds of the server's clock. */
  get times(): ReadonlyMap<string, number> {
    return this.#times;
  }
}
