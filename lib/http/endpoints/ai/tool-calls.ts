/** The tool calls of one message of a page: which of them have an output, wait for an approval, or were denied. */
import type { Action } from "../../../executor/questions.ts";
import { isObject, type Json, type JsonObject, sameJson } from "../../../json.ts";
import type { RunEvent } from "../run-events.ts";
import { contentText } from "../states.ts";
import { EXECUTED, outputChunk, outputErrorChunk, type UIMessageChunk } from "./chunk-parts.ts";
import type { PreliminaryOutput } from "./subagents.ts";

interface ToolCall {
  readonly message_id: string;
  readonly name: string;
  readonly args: Json;
  /** It has its output, or never gets one. */
  done: boolean;
  /** Made for an approval that names no call of the message. */
  readonly made?: boolean;
}

/** The chunks of a decision on an approval. */
interface DecisionChunks {
  readonly response: UIMessageChunk;
  readonly denied: readonly UIMessageChunk[];
}

export class ToolCalls {
  readonly #calls = new Map<string, ToolCall>();
  /** Call ids by approval id, which is `<interrupt id>:<index of the action>`. */
  readonly #approvals = new Map<string, string>();
  readonly #denied = new Set<string>();

  add({ message_id, tool_call_id, name, args, error }: Extract<RunEvent, { type: "tool-call-close" }>): void {
    this.#calls.set(tool_call_id, { message_id, name, args, done: error !== null });
  }

  has(tool_call_id: string): boolean {
    return this.#calls.has(tool_call_id);
  }

  /** Removes the calls of a message whose attempt was lost. */
  removeMessage(message_id: string): void {
    for (const [id, call] of this.#calls) if (call.message_id === message_id) this.#calls.delete(id);
  }

  /** Returns whether a call of the message has no output. */
  hasOpen(message_id: string): boolean {
    return this.#openOf(message_id).length > 0;
  }

  /** Returns whether an interrupt asks for approvals of calls. */
  asksApproval(interrupt_id: string): boolean {
    return this.#approvals.has(`${interrupt_id}:0`);
  }

  /** Ends a call with its result. */
  result({ tool_call_id, content, is_error }: Extract<RunEvent, { type: "tool-result" }>): UIMessageChunk[] {
    const call = this.#calls.get(tool_call_id);
    if (!call || call.done) return [];
    call.done = true;
    if (this.#denied.has(tool_call_id)) return [];
    return [
      is_error
        ? outputErrorChunk(tool_call_id, call, contentText(content))
        : outputChunk(tool_call_id, call, parseContent(content)),
    ];
  }

  /** Converts what a subagent has said so far. */
  preliminary(said: PreliminaryOutput | null): UIMessageChunk[] {
    const call = said && this.#calls.get(said.toolCallId);
    if (!call || call.done) return [];
    return [{ ...outputChunk(said.toolCallId, call, said.output), preliminary: true }];
  }

  /** Asks for the approval of an action: of the call of the message that it names, or of a call that is made for it. */
  requestApproval(approvalId: string, action: Action, message_id: string): UIMessageChunk[] {
    const { name, args, description, config } = action;
    const taken = new Set(this.#approvals.values());
    const found = this.#openOf(message_id).find(
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
    this.#calls.set(toolCallId, { message_id, name, args, done: false, made: true });
    const call = { toolCallId, toolName: name, input: args, dynamic: true };
    return [{ type: "tool-input-available", ...call, ...EXECUTED }, request];
  }

  /** Approves the other calls of a message that waits for approvals: clients answer by themselves only when each call has an answer. */
  approveOthers(interrupt_id: string, message_id: string): UIMessageChunk[] {
    const taken = new Set(this.#approvals.values());
    return this.#openOf(message_id).flatMap(([toolCallId]): UIMessageChunk[] => {
      if (taken.has(toolCallId)) return [];
      const approvalId = `${interrupt_id}:auto:${toolCallId}`;
      this.#approvals.set(approvalId, toolCallId);
      return [
        { type: "tool-approval-request", approvalId, toolCallId, isAutomatic: true },
        { type: "tool-approval-response", approvalId, approved: true },
      ];
    });
  }

  /** Applies the decision on an approval; null if there is no such approval, or no decision. */
  decide(approvalId: string, decision: Json | undefined): DecisionChunks | null {
    const toolCallId = this.#approvals.get(approvalId);
    if (toolCallId === undefined || !isObject(decision ?? null)) return null;
    const { type, message } = decision as JsonObject;
    const approved = type !== "reject";
    const reason: JsonObject = !approved && typeof message === "string" ? { reason: message } : {};
    const response = { type: "tool-approval-response", approvalId, approved, ...reason };
    if (approved) return { response, denied: [] };
    this.#denied.add(toolCallId);
    const call = this.#calls.get(toolCallId);
    if (call?.made) call.done = true;
    return { response, denied: [{ type: "tool-output-denied", toolCallId }] };
  }

  /** Ends the calls that never ran. */
  endOpen(): UIMessageChunk[] {
    return [...this.#calls].flatMap(([toolCallId, call]): UIMessageChunk[] => {
      if (call.done) return [];
      call.done = true;
      if (this.#denied.has(toolCallId)) return [];
      return [call.made ? outputChunk(toolCallId, call, null) : outputErrorChunk(toolCallId, call, "Not run")];
    });
  }

  #openOf(message_id: string): [string, ToolCall][] {
    return [...this.#calls].filter(([, call]) => call.message_id === message_id && !call.done);
  }
}

/** Returns the value of a text that is JSON. */
function parseContent(content: Json): Json {
  if (typeof content !== "string") return content;
  try {
    return JSON.parse(content) as Json;
  } catch {
    return content;
  }
}
