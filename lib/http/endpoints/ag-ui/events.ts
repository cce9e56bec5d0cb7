/** Maps the events of a run to events of AG-UI. */

import { describeInterrupt, parseApproval } from "../../../executor/approvals.ts";
import { addNumbers } from "../../../executor/message-merge.ts";
import { isObject, type Json, type JsonObject, sameJson } from "../../../json.ts";
import type { RunEvent } from "../run-events.ts";
import { toContentText } from "../states.ts";
import { toAguiMessages } from "./messages.ts";

/** An event, as AG-UI's clients read it after `data: `. */
export interface AguiEvent {
  readonly type: string;
  readonly [member: string]: Json;
}

/** The members of the client's request that shape the events. */
export interface AguiOptions {
  readonly threadId: string;
  readonly runId: string;
  readonly parentRunId?: string;
  /** Absent: a client before 1.0, which rejects unknown events. */
  readonly protocolVersion?: string;
  /** The ids of the messages that the client has, in its order. Its list is reordered to that of the thread. */
  readonly messageIds?: readonly string[];
  /** The run of the service: `metadata.run_id` of `RUN_STARTED`. */
  readonly run_id?: string;
  /** If true, clients before 1.0 get interrupts also as `CUSTOM` `on_interrupt`. */
  readonly legacy_interrupts?: boolean;
}

interface ToolCall {
  readonly message_id: string;
  readonly name: string;
  readonly args: Json;
  isDone: boolean;
}

/** An event of an open message, or the result of a tool call. */
type MessageEvent = Exclude<Extract<RunEvent, { message_id: string }>, { type: "message-open" }>;

interface Subagent {
  readonly name: string;
  readonly tool_call_id: string | null;
  isOpen: boolean;
}

/** Longer states are sent as a JSON Patch. */
const MAX_SNAPSHOT_CHARS = 16 * 1024;

/** Returns the part of a namespace that is a subagent: the model or graph of a tool. */
const findSubagent = (namespace: readonly string[]): string | undefined =>
  namespace.find((part) => /^(?:tools|task):/.test(part));

/** Maps the events of one run. Call `map` in their order from the first one. */
export class AguiMapper {
  readonly #options: AguiOptions;
  readonly #isLegacyClient: boolean;
  /** Messages whose text is open. */
  readonly #openTexts = new Set<string>();
  readonly #ignoredIds = new Set<string>();
  readonly #toolCalls = new Map<string, ToolCall>();
  readonly #subagents = new Map<string, Subagent>();
  /** Node names by task id, and the number of open tasks per node. */
  readonly #tasks = new Map<Json, string>();
  readonly #steps = new Map<string, number>();
  readonly #interrupts: JsonObject[] = [];
  /** Messages that the client has, in its order. */
  readonly #clientMessageIds: Set<string>;
  #lastMessageId = "";
  #values: JsonObject | null = null;
  #state: JsonObject = {};
  #failure: string | null = null;
  #usage: Json = null;

  constructor(options: AguiOptions) {
    this.#options = options;
    this.#isLegacyClient = options.protocolVersion === undefined;
    this.#clientMessageIds = new Set(options.messageIds);
  }

  /** The run has emitted no state, so the last event needs that of the thread. */
  get needsState(): boolean {
    return this.#values === null;
  }

  /** Returns the event RUN_STARTED, which also names the run of this service if it has another id. */
  start(): AguiEvent {
    const { threadId, runId, parentRunId, run_id } = this.#options;
    return {
      ...{ type: "RUN_STARTED", threadId, runId },
      ...(parentRunId === undefined ? {} : { parentRunId }),
      ...(run_id === undefined ? {} : { metadata: { run_id } }),
    };
  }

  /**
   * Returns the AG-UI events of one event, often none: interrupts, errors and the newest message id are kept for the
   * end. `values` is the thread's state, for the end of a run for which `needsState` is true.
   */
  map(event: RunEvent, values?: Json): AguiEvent[] {
    switch (event.type) {
      case "message-open":
        if (event.role !== "ai") this.#ignoredIds.add(event.message_id);
        else if (findSubagent(event.namespace) === undefined) this.#lastMessageId = event.message_id;
        return [];
      case "custom":
        return [createCustomEvent(event.data)];
      case "interrupt":
        this.#interrupts.push(toInterruptJson(event.id, event.value, this.#toolCalls));
        return [];
      case "values":
        return isObject(event.values) ? this.#mapState(event.values) : [];
      case "frame":
        return event.event === "tasks" && event.namespace.length === 0 ? this.#mapTask(event.data) : [];
      case "error":
        this.#failure = event.message || event.error;
        return [];
      case "end":
        return this.#end(event.status, values);
      case "start":
      case "update":
        return [];
      default:
        return this.#ignoredIds.has(event.message_id) ? [] : this.#mapWithSubagent(event);
    }
  }

  /** Maps an event of a message, and adds the subagent that it comes from. The first event of a subagent also starts it. */
  #mapWithSubagent(event: MessageEvent): AguiEvent[] {
    const { namespace } = event;
    // The last level is the tool node itself.
    const part = findSubagent(event.type === "tool-result" ? namespace.slice(0, -1) : namespace);
    const events = this.#mapMessageEvent(event);
    if (part === undefined || events.length === 0) return events;
    const subagentRunId = part.slice(part.indexOf(":") + 1);
    const subagent = this.#subagents.get(subagentRunId) ?? { name: part.split(":")[0] as string, tool_call_id: null };
    const started: AguiEvent[] = [];
    if (!("isOpen" in subagent && subagent.isOpen)) {
      this.#subagents.set(subagentRunId, { ...subagent, isOpen: true });
      const { name, tool_call_id } = subagent;
      const parent = tool_call_id === null ? {} : { parentToolCallId: tool_call_id };
      started.push({ type: "SUBAGENT_STARTED", subagentRunId, name, ...parent } as AguiEvent);
    }
    return [...started, ...events.map((aguiEvent) => ({ ...aguiEvent, subagentRunId }))];
  }

  /**
   * Maps an event of a message, its reasoning or tool calls. Keeps open texts, tool calls and usage for the end. Empty deltas
   * give no event.
   */
  #mapMessageEvent(event: MessageEvent): AguiEvent[] {
    const { message_id: messageId } = event;
    switch (event.type) {
      case "text-delta": {
        if (event.delta === "") return [];
        const content = { type: "TEXT_MESSAGE_CONTENT", messageId, delta: event.delta };
        if (this.#openTexts.has(messageId)) return [content];
        this.#openTexts.add(messageId);
        this.#clientMessageIds.add(messageId);
        return [{ type: "TEXT_MESSAGE_START", messageId, role: "assistant" }, content];
      }
      case "reasoning-open": {
        const id = toReasoningId(event.id);
        return [
          { type: "REASONING_START", messageId: id },
          { type: "REASONING_MESSAGE_START", messageId: id, role: "reasoning" },
        ];
      }
      case "reasoning-delta":
        if (event.delta === "") return [];
        return [{ type: "REASONING_MESSAGE_CONTENT", messageId: toReasoningId(event.id), delta: event.delta }];
      case "reasoning-close": {
        const id = toReasoningId(event.id);
        return [
          { type: "REASONING_MESSAGE_END", messageId: id },
          { type: "REASONING_END", messageId: id },
        ];
      }
      case "tool-call-open": {
        const { tool_call_id: toolCallId, name: toolCallName } = event;
        this.#clientMessageIds.add(messageId);
        return [{ type: "TOOL_CALL_START", toolCallId, toolCallName, parentMessageId: messageId }];
      }
      case "tool-call-delta":
        return [{ type: "TOOL_CALL_ARGS", toolCallId: event.tool_call_id, delta: event.delta }];
      case "tool-call-close": {
        const { tool_call_id: toolCallId, name, args, error } = event;
        this.#toolCalls.set(toolCallId, { message_id: messageId, name, args, isDone: error !== null });
        return [{ type: "TOOL_CALL_END", toolCallId }];
      }
      case "tool-result": {
        const { tool_call_id: toolCallId, content } = event;
        const call = this.#toolCalls.get(toolCallId);
        if (call) call.isDone = true;
        this.#clientMessageIds.add(messageId);
        return [{ type: "TOOL_CALL_RESULT", messageId, toolCallId, content: toContentText(content), role: "tool" }];
      }
      case "message-close":
        if (event.usage) this.#usage = addNumbers(this.#usage, event.usage);
        return this.#openTexts.delete(messageId) ? [{ type: "TEXT_MESSAGE_END", messageId }] : [];
      default:
        return [];
    }
  }

  /**
   * Maps the start or end of a task of the root graph to those of a step. Parallel tasks of one node are one step, and
   * a repeated start gives no event. A task that executes a tool call may be a subagent, which ends with it.
   */
  #mapTask(data: Json): AguiEvent[] {
    if (!isObject(data) || typeof data.name !== "string") return [];
    const { id = null, name: stepName } = data;
    const count = this.#steps.get(stepName) ?? 0;
    if ("input" in data) {
      if (this.#tasks.has(id)) return [];
      this.#tasks.set(id, stepName);
      this.#steps.set(stepName, count + 1);
      this.#registerSubagent(String(id), stepName, data.input ?? null);
      return count === 0 ? [{ type: "STEP_STARTED", stepName }] : [];
    }
    if (!this.#tasks.delete(id)) return [];
    this.#steps.set(stepName, count - 1);
    const subagentEvents = this.#endSubagent(String(id), typeof data.error === "string" ? data.error : null);
    return count === 1 ? [...subagentEvents, { type: "STEP_FINISHED", stepName }] : subagentEvents;
  }

  /** Stores the name and tool call of a subagent under the id of the task that executes the call. Ignores other tasks. */
  #registerSubagent(id: string, node: string, input: Json): void {
    const call = isObject(input) ? (input.lg_tool_call ?? input.toolCall ?? input) : null;
    if (!isObject(call ?? null) || typeof (call as JsonObject).name !== "string") return;
    const { name, id: tool_call_id } = call as JsonObject;
    if (typeof tool_call_id !== "string") return;
    this.#subagents.set(id, { name: typeof name === "string" ? name : node, tool_call_id, isOpen: false });
  }

  /**
   * Marks a subagent as closed. Returns SUBAGENT_FINISHED, or SUBAGENT_ERROR if there is an error. Returns no event and
   * changes nothing if it is not open.
   */
  #endSubagent(subagentRunId: string, error: string | null): AguiEvent[] {
    const subagent = this.#subagents.get(subagentRunId);
    if (!subagent?.isOpen) return [];
    subagent.isOpen = false;
    if (error !== null) return [{ type: "SUBAGENT_ERROR", subagentRunId, message: error }];
    return [{ type: "SUBAGENT_FINISHED", subagentRunId, outcome: { type: "success" } }];
  }

  /**
   * Keeps the values for the end. Returns a snapshot of the state without messages, or a patch if it is large and not
   * the first. Returns no event if only messages have changed.
   */
  #mapState(values: JsonObject): AguiEvent[] {
    this.#values = values;
    const { messages: _, ...state } = values;
    const before = this.#state;
    if (sameJson(state, before)) return [];
    this.#state = state;
    if (JSON.stringify(state).length <= MAX_SNAPSHOT_CHARS || Object.keys(before).length === 0) {
      return [{ type: "STATE_SNAPSHOT", snapshot: state }];
    }
    return [{ type: "STATE_DELTA", delta: createJsonPatch(before, state) }];
  }

  /**
   * Closes what is open. Returns its ends and RUN_ERROR, for frames that stop before the end of the run, as when the
   * service stops. A broken connection would make `HttpAgent` reject twice, which ends a Node process such as
   * CopilotKit's runtime.
   */
  stop(): AguiEvent[] {
    const message = "The server stops. The run goes on, and the next one shows its answer";
    return [...this.#closeAll(), { type: "RUN_ERROR", message, code: "stopped" }];
  }

  /** Closes open texts, subagents and steps, and returns their ends in this order. */
  #closeAll(): AguiEvent[] {
    const texts = [...this.#openTexts].map((messageId): AguiEvent => ({ type: "TEXT_MESSAGE_END", messageId }));
    this.#openTexts.clear();
    const subagents = [...this.#subagents.keys()].flatMap((id) => this.#endSubagent(id, null));
    const openSteps = [...this.#steps].filter(([, count]) => count > 0);
    this.#steps.clear();
    return [...texts, ...subagents, ...openSteps.map(([stepName]): AguiEvent => ({ type: "STEP_FINISHED", stepName }))];
  }

  /**
   * Closes what is open, and returns the last events. After an error they are its ends and RUN_ERROR, after a stop its
   * ends and RUN_FINISHED. Otherwise they also have the state, from `values` if given, and a snapshot of the messages
   * before RUN_FINISHED with its outcome.
   */
  #end(status: string, values: Json | undefined): AguiEvent[] {
    const { threadId, runId } = this.#options;
    const closingEvents = this.#closeAll();
    if (this.#failure !== null) {
      const code = status === "timeout" ? "timeout" : "error";
      return [...closingEvents, { type: "RUN_ERROR", message: this.#failure, code }];
    }
    const finished = { type: "RUN_FINISHED", threadId, runId };
    const usage = toUsageMember(this.#usage);
    if (status === "interrupted" || status === "rollback") {
      return [
        ...closingEvents,
        { ...finished, ...(this.#isLegacyClient ? {} : { outcome: { type: "cancelled" } }), ...usage },
      ];
    }
    const stateEvents = values !== undefined && isObject(values) ? this.#mapState(values) : [];
    const snapshots = createMessageSnapshots(toAguiMessages(this.#values ?? {}), this.#clientMessageIds);
    return [
      ...closingEvents,
      ...stateEvents,
      ...snapshots,
      ...this.#createLegacyInterrupts(),
      { ...finished, outcome: this.#createOutcome(), ...usage },
    ];
  }

  /**
   * Returns the outcome: the pending interrupts, or success, with the ids of the last message's tool calls that have no
   * result. Old clients get no such ids.
   */
  #createOutcome(): JsonObject {
    if (this.#interrupts.length > 0) return { type: "interrupt", interrupts: this.#interrupts };
    const pending = [...this.#toolCalls].filter(
      ([, { isDone, message_id }]) => !isDone && message_id === this.#lastMessageId,
    );
    if (pending.length === 0 || this.#isLegacyClient) return { type: "success" };
    return { type: "success", pendingToolCallIds: pending.map(([id]) => id) };
  }

  /** Returns interrupts as custom events, for old clients and only if the option is set. */
  #createLegacyInterrupts(): AguiEvent[] {
    if (!this.#isLegacyClient || !this.#options.legacy_interrupts) return [];
    return this.#interrupts.map(({ metadata }): AguiEvent => {
      const value = ((metadata as JsonObject).langgraph as JsonObject).raw ?? null;
      return { type: "CUSTOM", name: "on_interrupt", value: typeof value === "string" ? value : JSON.stringify(value) };
    });
  }
}

/**
 * Returns one snapshot of all messages. Clients keep their order and append new messages, so an empty snapshot comes
 * first if the messages that they have are not the first ones or have another order.
 */
export function createMessageSnapshots(messages: JsonObject[], clientIds: ReadonlySet<string>): AguiEvent[] {
  const ids = messages.map(({ id }) => id as string);
  const idSet = new Set(ids);
  const isSorted = [...clientIds].filter((id) => idSet.has(id)).every((id, index) => id === ids[index]);
  return (isSorted ? [messages] : [[], messages]).map((list) => ({ type: "MESSAGES_SNAPSHOT", messages: list }));
}

/**
 * Converts an interrupt. Reason, response schema and expiry come from its value if it has them. An approval of one
 * action names its tool call, if exactly one open call has its name and arguments.
 */
function toInterruptJson(id: string, value: Json, toolCalls: ReadonlyMap<string, ToolCall>): JsonObject {
  const actions = parseApproval(value)?.actions;
  const members = isObject(value) ? value : {};
  const defaultReason = actions ? "approval" : "langgraph:interrupt";
  const [action] = actions ?? [];
  const matchingCalls =
    actions?.length === 1 && action
      ? [...toolCalls].filter(
          ([, { isDone, name, args }]) => !isDone && name === action.name && sameJson(args, action.args),
        )
      : [];
  return {
    id,
    reason: typeof members.reason === "string" ? members.reason : defaultReason,
    message: describeInterrupt(value),
    ...(matchingCalls.length === 1 ? { toolCallId: (matchingCalls[0] as [string, ToolCall])[0] } : {}),
    ...(isObject(members.responseSchema ?? null) ? { responseSchema: members.responseSchema as Json } : {}),
    ...(typeof members.expiresAt === "string" ? { expiresAt: members.expiresAt } : {}),
    metadata: { langgraph: { raw: value } },
  };
}

/** Converts `<message id>:<index>` to `<message id>:r<index>`. */
const toReasoningId = (part: string): string => part.replace(/:([^:]*)$/, ":r$1");

/**
 * Returns the event CUSTOM with the name and the payload of the data, or with all data if they have no payload. Data
 * without a name get the name `custom`.
 */
function createCustomEvent(data: Json): AguiEvent {
  const { name, payload } = isObject(data) ? data : {};
  const value = payload === undefined ? data : payload;
  return typeof name === "string" ? { type: "CUSTOM", name, value } : { type: "CUSTOM", name: "custom", value: data };
}

/** Returns a JSON Patch (RFC 6902) from `before` to `after`. It adds, replaces and removes top-level members only. */
function createJsonPatch(before: JsonObject, after: JsonObject): JsonObject[] {
  const toPointer = (key: string): string => `/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
  const removed = Object.keys(before).filter((key) => !Object.hasOwn(after, key));
  return [
    ...removed.map((key) => ({ op: "remove", path: toPointer(key) })),
    ...Object.entries(after).flatMap(([key, value]): JsonObject[] => {
      if (!Object.hasOwn(before, key)) return [{ op: "add", path: toPointer(key), value }];
      return sameJson(before[key] as Json, value) ? [] : [{ op: "replace", path: toPointer(key), value }];
    }),
  ];
}

/** Returns the member `usage`, a list with one object of the known counts. Returns an empty object if none is known. */
function toUsageMember(usage: Json): JsonObject {
  if (!isObject(usage)) return {};
  const { input_tokens, output_tokens, total_tokens } = usage;
  const counts = { inputTokens: input_tokens, outputTokens: output_tokens, totalTokens: total_tokens };
  const entries = Object.entries(counts).filter((entry): entry is [string, number] => typeof entry[1] === "number");
  return entries.length > 0 ? { usage: [Object.fromEntries(entries)] } : {};
}
