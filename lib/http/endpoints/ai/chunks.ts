/** Chunks of the AI SDK's UI message stream, made from the events of runs. */
import { sum } from "../../../executor/messages.ts";
import { type Action, approvalOf } from "../../../executor/questions.ts";
import { isObject, type Json, type JsonObject, sameJson } from "../../../json.ts";
import type { RunEvent } from "../run-events.ts";
import { contentText } from "../states.ts";
import { type PreliminaryOutput, SubagentOutputs } from "./subagents.ts";

/** One chunk, as the AI SDK reads it after `data: `. */
export interface UIMessageChunk {
  readonly type: string;
  readonly [member: string]: Json;
}

/** The version of `ai` that reads the chunks. Unknown types fail there. */
export type AiVersion = 5 | 6 | 7;

/** An interrupt. */
export interface OpenInterrupt {
  readonly id: string;
  readonly value: Json;
}

/** A question that was open, and its answer as the graph got it; absent if the question stays open. */
export interface Answered extends OpenInterrupt {
  readonly answer?: Json;
  /** The client that has answered has the answer in its message. */
  readonly answered_there?: boolean;
}

interface ToolCall {
  readonly message_id: string;
  readonly name: string;
  readonly args: Json;
  /** It has its output, or never gets one. */
  done: boolean;
  /** Made for an approval that names no call of the message. */
  readonly made?: boolean;
}

/** Namespaces of subagents: a tool's own model and graph. */
export const isSubagent = (namespace: readonly string[]): boolean =>
  namespace.some((part) => /^(?:tools|task):/.test(part));

const isIdentifier = (name: string): boolean => /^[A-Za-z_$][\w$]*$/.test(name);

/** The graph runs its tools itself: without this, clients send finished tools back, without end. */
const EXECUTED = { providerExecuted: true };

/**
 * Maps the events of the runs of one message, in their order. One AI message of the graph is one step; messages that are written at
 * the same time follow each other.
 */
export class ChunkMapper {
  readonly #version: AiVersion;
  readonly #calls = new Map<string, ToolCall>();
  /** Call ids by approval id. */
  readonly #approvals = new Map<string, string>();
  readonly #denied = new Set<string>();
  readonly #ignored = new Set<string>();
  #stepOpen = false;
  /** The AI message that is open, and the last one. */
  #current: string | null = null;
  #last = "";
  #waiting: RunEvent[] = [];
  readonly #unsaved = new Unsaved();
  readonly #subagents = new SubagentOutputs();
  /** The message of the open step, if its attempt was lost. */
  #lost: string | null = null;
  #asked: string[] = [];
  #failed = false;
  #reason = "stop";
  #usage: Json = null;

  constructor(version: AiVersion = 7) {
    this.#version = version;
  }

  /** What the shown messages have used so far; null without usage. */
  get usage(): Json {
    return this.#usage;
  }

  take(event: RunEvent): UIMessageChunk[] {
    if (!("message_id" in event)) return this.#other(event);
    if (event.type === "tool-result") return this.#result(event);
    if (isSubagent(event.namespace)) return preliminary(this.#subagents.take(event), this.#calls);
    const { message_id } = event;
    if (event.type === "message-open") this.#unsaved.open(message_id);
    if (this.#current !== null && this.#current !== message_id) {
      this.#waiting.push(event);
      return [];
    }
    if (event.type === "message-open") return this.#open(event);
    if (this.#ignored.has(message_id)) return [];
    return this.#part(event);
  }

  /** The questions of earlier runs with the answers that the next run takes. */
  answer(questions: readonly Answered[]): UIMessageChunk[] {
    const chunks = this.#closeStep();
    this.#asked = questions.flatMap(({ id, answer }) => (answer === undefined ? [id] : []));
    const denied: UIMessageChunk[] = [];
    for (const { id, value, answer } of questions) {
      if (answer === undefined) continue;
      const actions = this.#version === 5 ? null : approvalOf(value)?.actions;
      if (!actions) {
        chunks.push(interruptPart({ id, value, open: false, answer }));
        continue;
      }
      const decisions = isObject(answer) && Array.isArray(answer.decisions) ? answer.decisions : [];
      for (const k of actions.keys()) {
        const approvalId = `${id}:${k}`;
        const toolCallId = this.#approvals.get(approvalId);
        const decision = decisions[k];
        if (toolCallId === undefined || !isObject(decision ?? null)) continue;
        const { type, message } = decision as JsonObject;
        const approved = type !== "reject";
        const reason: JsonObject = !approved && typeof message === "string" ? { reason: message } : {};
        if (this.#version === 7) chunks.push({ type: "tool-approval-response", approvalId, approved, ...reason });
        if (approved) continue;
        this.#denied.add(toolCallId);
        denied.push({ type: "tool-output-denied", toolCallId });
        const call = this.#calls.get(toolCallId);
        if (call?.made) call.done = true;
      }
    }
    return [...chunks, ...denied];
  }

  /** Ends the message: with open questions, or with calls that never ran. */
  close(): UIMessageChunk[] {
    return [...(this.#asked.length > 0 ? this.#automatic() : this.#notRun()), ...this.#closeStep()];
  }

  #other(event: Exclude<RunEvent, { readonly message_id: string }>): UIMessageChunk[] {
    switch (event.type) {
      case "question":
        return this.#interrupt(event);
      case "custom":
        return [customPart(event.data)];
      case "start":
        if (this.#unsaved.start(this.#last) && this.#stepOpen) this.#lost = this.#last;
        return [];
      case "update":
        this.#unsaved.update(event.values);
        return [];
      case "frame":
        if (event.event === "tasks") this.#subagents.task(event.data);
        return [];
      case "error": {
        this.#failed = true;
        const errorText = event.message || event.error;
        return [...this.#notRun(), { type: "error", errorText }, ...this.#closeStep(), finish("error", this.#usage)];
      }
      case "end": {
        if (this.#failed) return [];
        if (event.status === "interrupted" || event.status === "rollback") {
          this.#asked = [];
          return [...this.close(), { type: "abort", reason: "cancelled" }, finish("other", this.#usage)];
        }
        const asksApproval = this.#approvals.size > 0 && this.#asked.some((id) => this.#approvals.has(`${id}:0`));
        const isCall = asksApproval || (this.#asked.length === 0 && this.#open_calls().length > 0);
        return [...this.close(), finish(isCall ? "tool-calls" : this.#reason, this.#usage)];
      }
      default:
        return [];
    }
  }

  #open({ message_id, role }: Extract<RunEvent, { type: "message-open" }>): UIMessageChunk[] {
    if (role !== "ai") {
      this.#ignored.add(message_id);
      return [];
    }
    const lost = this.#lost;
    this.#lost = null;
    this.#current = message_id;
    this.#last = message_id;
    this.#ignored.delete(message_id);
    // A durable function continues the message of an earlier attempt.
    if (lost === message_id) return [];
    if (lost !== null && this.#version === 7) {
      for (const [id, call] of this.#calls) if (call.message_id === lost) this.#calls.delete(id);
      return [{ type: "reset-step" }];
    }
    const chunks: UIMessageChunk[] = [...this.#closeStep(), { type: "start-step" }];
    this.#stepOpen = true;
    return chunks;
  }

  #part(event: Exclude<Extract<RunEvent, { message_id: string }>, { type: "message-open" | "tool-result" }>) {
    switch (event.type) {
      case "text-open":
      case "reasoning-open":
        return [{ type: event.type.replace("open", "start"), id: event.id }];
      case "text-delta":
      case "reasoning-delta":
        return [{ type: event.type, id: event.id, delta: event.delta }];
      case "text-close":
      case "reasoning-close":
        return [{ type: event.type.replace("close", "end"), id: event.id }, ...sources(event.id, event.block)];
      case "tool-call-open":
        return [{ type: "tool-input-start", ...named(event.tool_call_id, event.name), ...EXECUTED }];
      case "tool-call-delta":
        return [{ type: "tool-input-delta", toolCallId: event.tool_call_id, inputTextDelta: event.delta }];
      case "tool-call-close": {
        const { message_id, tool_call_id, name, args, error } = event;
        this.#calls.set(tool_call_id, { message_id, name, args, done: error !== null });
        return [inputPart(event)];
      }
      case "file":
        return [filePart(event.block) ?? []].flat();
      case "message-close": {
        this.#current = null;
        this.#reason = FINISH_REASONS[event.reason] ?? "stop";
        if (event.usage) this.#usage = sum(this.#usage, event.usage);
        const waiting = this.#waiting;
        this.#waiting = [];
        return waiting.flatMap((next) => this.take(next));
      }
    }
  }

  #result(event: Extract<RunEvent, { type: "tool-result" }>): UIMessageChunk[] {
    const { tool_call_id: toolCallId, content, is_error, namespace } = event;
    const call = this.#calls.get(toolCallId);
    if (!call) {
      // Its call may not be complete, or in a message that waits for the one that is open.
      if (this.#current !== null) this.#waiting.push(event);
      return [];
    }
    // The last part is the node of the tools itself.
    if (call.done || isSubagent(namespace.slice(0, -1))) return [];
    call.done = true;
    if (this.#denied.has(toolCallId)) return [];
    return [is_error ? failed(toolCallId, call, contentText(content)) : output(toolCallId, call, parsed(content))];
  }

  #interrupt({ id, value }: OpenInterrupt): UIMessageChunk[] {
    if (!this.#asked.includes(id)) this.#asked.push(id);
    const actions = this.#version === 5 ? null : approvalOf(value)?.actions;
    if (!actions) return [interruptPart({ id, value, open: true })];
    // A run that answers another question asks this one again.
    if (this.#approvals.has(`${id}:0`)) return [];
    return actions.flatMap((action, k) => this.#approval(`${id}:${k}`, action));
  }

  #approval(approvalId: string, { name, args, description, config }: Action): UIMessageChunk[] {
    const taken = new Set(this.#approvals.values());
    const found = this.#open_calls().find(
      ([id, call]) => !taken.has(id) && call.name === name && sameJson(call.args, args),
    );
    const toolCallId = found?.[0] ?? approvalId;
    this.#approvals.set(approvalId, toolCallId);
    const about = {
      ...(description === null ? {} : { reason: description }),
      ...(config === null ? {} : { approvalDescriptor: config }),
    };
    const request: UIMessageChunk = { type: "tool-approval-request", approvalId, toolCallId, ...about };
    if (found) return [request];
    this.#calls.set(toolCallId, { message_id: this.#last, name, args, done: false, made: true });
    const call = { toolCallId, toolName: name, input: args, dynamic: true };
    return [{ type: "tool-input-available", ...call, ...EXECUTED }, request];
  }

  /** Calls beside those that wait for approval: clients answer by themselves only when each call has an answer. */
  #automatic(): UIMessageChunk[] {
    const asking = this.#asked.find((id) => this.#approvals.has(`${id}:0`));
    if (asking === undefined || this.#version !== 7) return [];
    const taken = new Set(this.#approvals.values());
    return this.#open_calls().flatMap(([toolCallId]): UIMessageChunk[] => {
      if (taken.has(toolCallId)) return [];
      const approvalId = `${asking}:auto:${toolCallId}`;
      this.#approvals.set(approvalId, toolCallId);
      return [
        { type: "tool-approval-request", approvalId, toolCallId, isAutomatic: true },
        { type: "tool-approval-response", approvalId, approved: true },
      ];
    });
  }

  /** Calls of the last AI message without an output. */
  #open_calls(): [string, ToolCall][] {
    return [...this.#calls].filter(([, { message_id, done }]) => message_id === this.#last && !done);
  }

  #notRun(): UIMessageChunk[] {
    return [...this.#calls].flatMap(([toolCallId, call]): UIMessageChunk[] => {
      if (call.done) return [];
      call.done = true;
      if (this.#denied.has(toolCallId)) return [];
      return [call.made ? output(toolCallId, call, null) : failed(toolCallId, call, "Not run")];
    });
  }

  #closeStep(): UIMessageChunk[] {
    if (!this.#stepOpen) return [];
    this.#stepOpen = false;
    return [{ type: "finish-step" }];
  }
}

/** The messages of a run that no update has shown: if the attempt is lost, the next one writes them anew. */
class Unsaved {
  readonly #ids = new Set<string>();
  #begun = false;

  open(id: string): void {
    this.#ids.add(id);
  }

  update(values: Json): void {
    for (const one of isObject(values) ? Object.values(values).flat() : []) {
      if (isObject(one) && typeof one.id === "string") this.#ids.delete(one.id);
    }
  }

  /** An attempt starts: whether an earlier one has lost this message. What came before the first one is of the state. */
  start(id: string): boolean {
    const isLost = this.#begun && this.#ids.has(id);
    this.#begun = true;
    this.#ids.clear();
    return isLost;
  }
}

const finish = (finishReason: string, usage: Json): UIMessageChunk => ({
  ...{ type: "finish", finishReason },
  ...(usage === null ? {} : { messageMetadata: { usage } }),
});

const FINISH_REASONS: Readonly<Record<string, string>> = { length: "length", content_filter: "content-filter" };

const interruptPart = (data: { id: string; value: Json; open: boolean; answer?: Json }): UIMessageChunk => ({
  type: "data-interrupt",
  id: data.id,
  data,
});

const named = (toolCallId: string, toolName: string): JsonObject => ({
  toolCallId,
  toolName,
  ...(isIdentifier(toolName) ? {} : { dynamic: true }),
});

/** Version 5 finds a dynamic call only by this member. */
const ofCall = ({ name, made = false }: ToolCall): JsonObject =>
  made || !isIdentifier(name) ? { dynamic: true, ...EXECUTED } : EXECUTED;

function inputPart(event: Extract<RunEvent, { type: "tool-call-close" }>): UIMessageChunk {
  const call = { ...named(event.tool_call_id, event.name), input: event.args };
  if (event.error === null) return { type: "tool-input-available", ...call, ...EXECUTED };
  return { type: "tool-input-error", ...call, errorText: event.error, ...EXECUTED };
}

function preliminary(said: PreliminaryOutput | null, calls: ReadonlyMap<string, ToolCall>): UIMessageChunk[] {
  const call = said && calls.get(said.toolCallId);
  return call && !call.done ? [{ ...output(said.toolCallId, call, said.output), preliminary: true }] : [];
}

const output = (toolCallId: string, call: ToolCall, value: Json): UIMessageChunk => ({
  ...{ type: "tool-output-available", toolCallId, output: value },
  ...ofCall(call),
});

const failed = (toolCallId: string, call: ToolCall, errorText: string): UIMessageChunk => ({
  ...{ type: "tool-output-error", toolCallId, errorText },
  ...ofCall(call),
});

/** Data that a graph or function sends to the page. */
function customPart(data: Json): UIMessageChunk {
  if (isObject(data)) {
    const { type, id, transient, name, payload } = data;
    if (typeof type === "string" && type.startsWith("data-") && data.data !== undefined) {
      return {
        type,
        data: data.data,
        ...(typeof id === "string" ? { id } : {}),
        ...(transient === true ? { transient } : {}),
      };
    }
    if (typeof name === "string" && payload !== undefined) return { type: `data-${name}`, data: payload };
  }
  return { type: "data-custom", data, transient: true };
}

/** A text that is JSON as its value. */
function parsed(content: Json): Json {
  if (typeof content !== "string") return content;
  try {
    return JSON.parse(content) as Json;
  } catch {
    return content;
  }
}

/** A content block with data or an address as a part `file`. */
export function filePart({ type, mime_type, data, url }: JsonObject): UIMessageChunk | null {
  const mediaType = typeof mime_type === "string" ? mime_type : FILE_TYPES[String(type)];
  if (mediaType === undefined) return null;
  const source = typeof data === "string" ? `data:${mediaType};base64,${data}` : url;
  return typeof source === "string" ? { type: "file", url: source, mediaType } : null;
}

const FILE_TYPES: Readonly<Record<string, string>> = {
  image: "image/*",
  audio: "audio/*",
  video: "video/*",
  file: "application/octet-stream",
};

/** The citations of a text. */
function sources(part: string, { annotations }: JsonObject): UIMessageChunk[] {
  const list = (Array.isArray(annotations) ? annotations : []).filter(isObject);
  return list.flatMap(({ url, title }, index) =>
    typeof url === "string"
      ? [{ type: "source-url", sourceId: `${part}:${index}`, url, ...(typeof title === "string" ? { title } : {}) }]
      : [],
  );
}
