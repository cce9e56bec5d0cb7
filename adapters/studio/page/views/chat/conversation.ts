/** The conversation that the events of a thread make, over the state that was read before them. */
import type { ThreadEvent } from "../../api/events.ts";
import { type Message, messagesOf } from "./messages.ts";
import { type MessageData, Piece } from "./pieces.ts";
import type { Nested } from "./source.ts";

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
  readonly pieces: Map<string, Piece>;
  isOver: boolean;
}

const isRoot = ({ params }: ThreadEvent): boolean => params.namespace.length === 0;

const BEGINS: ReadonlySet<string> = new Set(["running", "started"]);

/** A run of the thread has ended. */
export const isEnd = (event: ThreadEvent): boolean =>
  event.method === "lifecycle" && isRoot(event) && !BEGINS.has((event.params.data as LifecycleData).event);

export class Conversation {
  values: unknown = null;
  run_id: string | null = null;
  error: string | null = null;
  #complete: readonly Message[] | null = null;
  /** What is not in the values yet, in the order in which it came: sent messages, and those that stream. */
  #added = new Map<string, Message | Piece>();
  readonly #nested = new Map<string, Subagent>();
  readonly #began = new Map<string, number>();
  readonly #times = new Map<string, number>();

  /** The state at rest: nothing streams. */
  settle(values: unknown): void {
    this.#put(values);
    this.run_id = null;
    this.#drop();
  }

  /** What streamed. Subagents of tool calls stay: the values have nothing of what they said. */
  #drop(): void {
    for (const [key, one] of this.#added) if (one instanceof Piece) this.#added.delete(key);
    for (const [scope, { call }] of this.#nested) if (!call) this.#nested.delete(scope);
  }

  #put(values: unknown): void {
    this.values = values;
    this.#complete = messagesOf(values);
    const known = new Set(this.#complete?.map(({ id }) => id));
    for (const [key, one] of this.#added) if (!one.id || known.has(one.id)) this.#added.delete(key);
  }

  /** A turn is sent. `after`: the messages that it comes after, where these are not all. */
  send(added: readonly Message[], after?: readonly Message[]): void {
    this.error = null;
    if (after) this.#complete = after;
    for (const [index, message] of added.entries()) this.#added.set(message.id ?? `sent ${index}`, message);
  }

  /** The turn was refused. */
  unsend(): void {
    for (const [key, one] of this.#added) if (!(one instanceof Piece)) this.#added.delete(key);
  }

  take(event: ThreadEvent): void {
    const { data, timestamp, namespace } = event.params;
    if (event.method === "values") {
      if (isRoot(event)) this.#put(data);
    } else if (event.method === "messages") this.#message(namespace, data as MessageData);
    else if (event.method === "tools") this.#tool(data as ToolData, timestamp);
    else if (event.method === "lifecycle") this.#lifecycle(event, data as LifecycleData);
  }

  #lifecycle(event: ThreadEvent, { event: what, error, graph_name = "", cause }: LifecycleData): void {
    if (!isRoot(event)) {
      const scope = event.params.namespace.join("|");
      const subagent = this.#nested.get(scope);
      const call = cause?.tool_call_id;
      if (call) this.#nested.set(scope, { name: graph_name, call, pieces: new Map(), isOver: false });
      else if (subagent && !BEGINS.has(what)) subagent.isOver = true;
    } else if (BEGINS.has(what)) {
      this.run_id = /^synth:([^:]+):/.exec(event.event_id)?.[1] ?? null;
      this.error = null;
      // Another attempt says again what the one before it did not complete.
      this.#drop();
    } else if (what === "failed") this.error = error ?? "The run failed";
  }

  #message(namespace: readonly string[], data: MessageData): void {
    const key = data.run_id ?? namespace.join("|");
    const [scope = ""] = namespace;
    let pieces: Map<string, Message | Piece> = this.#added;
    // The first segment is the node of the graph itself.
    if (namespace.length > 1) {
      const name = scope.split(":")[0] ?? scope;
      const subagent = this.#nested.get(scope) ?? { name, call: undefined, pieces: new Map(), isOver: false };
      this.#nested.set(scope, subagent);
      pieces = subagent.pieces;
    }
    if (data.event === "message-start") pieces.set(key, new Piece(data));
    const piece = pieces.get(key);
    if (piece instanceof Piece) piece.take(data);
  }

  #tool({ event, tool_call_id }: ToolData, timestamp: number): void {
    const since = this.#began.get(tool_call_id);
    if (event === "tool-started") this.#began.set(tool_call_id, timestamp);
    else if (since !== undefined && event !== "tool-output-delta") this.#times.set(tool_call_id, timestamp - since);
  }

  get messages(): readonly Message[] | null {
    const known = new Set(this.#complete?.map(({ id }) => id));
    const added = [...this.#added.values()]
      .filter(({ id }) => !id || !known.has(id))
      .map((one) => (one instanceof Piece ? one.message : one));
    if (added.length === 0) return this.#complete;
    return [...(this.#complete ?? []), ...added];
  }

  get nested(): ReadonlyMap<string, Nested> {
    return new Map(
      [...this.#nested].map(([scope, { name, call, pieces, isOver }]) => [
        scope,
        { name, call, isOver, messages: [...pieces.values()].map(({ message }) => message) },
      ]),
    );
  }

  /** How long calls of tools took, by the server's clock. */
  get times(): ReadonlyMap<string, number> {
    return this.#times;
  }
}
