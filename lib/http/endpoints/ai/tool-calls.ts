/** The tool calls of one message of a page: which of them have an output, wait for an approval, or were denied. */
import type { Action } from "../../../executor/approvals.ts";
import { isObject, type Json, type JsonObject, sameJson } from "../../../json.ts";
import type { RunEvent } from "../run-events.ts";
import { toContentText } from "../states.ts";
import { createOutputChunk, createOutputErrorChunk, PROVIDER_EXECUTED, type UIMessageChunk } from "./chunk-parts.ts";
import type { PreliminaryOutput } from "./subagents.ts";

interface ToolCall {
  readonly message_id: string;
  readonly name: string;
  readonly args: Json;
  /** True once it has its output, or never gets one. */
  isDone: boolean;
  /** True if it was created for an approval that matches no call of the message. */
  readonly isSynthetic?: boolean;
}

/** The chunks of a decision on an approval. */
interface DecisionChunks {
  readonly response: UIMessageChunk;
  readonly denied: readonly UIMessageChunk[];
}

export class ToolCalls {
  readonly #calls = new Map<string, ToolCall>();
  /** Tool call ids by approval id, which is `<interrupt id>:<index of the action>`. */
  readonly #approvals = new Map<string, string>();
  readonly #denied = new Set<string>();

  add({ message_id, tool_call_id, name, args, error }: Extract<RunEvent, { type: "tool-call-close" }>): void {
    this.#calls.set(tool_call_id, { message_id, name, args, isDone: error !== null });
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
    return this.#findOpenCalls(message_id).length > 0;
  }

  /** Returns whether an interrupt requests approvals of tool calls. */
  hasApprovalRequest(interrupt_id: string): boolean {
    return this.#approvals.has(`${interrupt_id}:0`);
  }

  /**
   * Marks a call as done and returns the chunk of its output or error. Text that is JSON is parsed. Returns no chunk
   * for a call that is unknown, was done, or was denied.
   */
  mapResult({ tool_call_id, content, is_error }: Extract<RunEvent, { type: "tool-result" }>): UIMessageChunk[] {
    const call = this.#calls.get(tool_call_id);
    if (!call || call.isDone) return [];
    call.isDone = true;
    if (this.#denied.has(tool_call_id)) return [];
    return [
      is_error
        ? createOutputErrorChunk(tool_call_id, call, toContentText(content))
        : createOutputChunk(tool_call_id, call, parseContent(content)),
    ];
  }

  /** Returns a preliminary output of the call. Returns no chunk for null, an unknown call and one that is done. */
  mapPreliminaryOutput(preliminaryOutput: PreliminaryOutput | null): UIMessageChunk[] {
    const call = preliminaryOutput && this.#calls.get(preliminaryOutput.toolCallId);
    if (!call || call.isDone) return [];
    return [{ ...createOutputChunk(preliminaryOutput.toolCallId, call, preliminaryOutput.output), preliminary: true }];
  }

  /**
   * Returns the request to approve an action, for the open call of the message with its name and arguments that has no
   * request yet. Without such a call, adds one whose id is that of the approval, and returns its input first.
   */
  requestApproval(approvalId: string, action: Action, message_id: string): UIMessageChunk[] {
    const { name, args, description, config } = action;
    const usedCallIds = new Set(this.#approvals.values());
    const match = this.#findOpenCalls(message_id).find(
      ([id, call]) => !usedCallIds.has(id) && call.name === name && sameJson(call.args, args),
    );
    const toolCallId = match?.[0] ?? approvalId;
    this.#approvals.set(approvalId, toolCallId);
    const approvalMembers = {
      ...(description === null ? {} : { reason: description }),
      ...(config === null ? {} : { approvalDescriptor: config }),
    };
    const request: UIMessageChunk = { type: "tool-approval-request", approvalId, toolCallId, ...approvalMembers };
    if (match) return [request];
    this.#calls.set(toolCallId, { message_id, name, args, isDone: false, isSynthetic: true });
    const call = { toolCallId, toolName: name, input: args, dynamic: true };
    return [{ type: "tool-input-available", ...call, ...PROVIDER_EXECUTED }, request];
  }

  /**
   * Returns a request and its approval for each open call of the message that has no request: clients send a response
   * only once each call has one.
   */
  approveOthers(interrupt_id: string, message_id: string): UIMessageChunk[] {
    const usedCallIds = new Set(this.#approvals.values());
    return this.#findOpenCalls(message_id).flatMap(([toolCallId]): UIMessageChunk[] => {
      if (usedCallIds.has(toolCallId)) return [];
      const approvalId = `${interrupt_id}:auto:${toolCallId}`;
      this.#approvals.set(approvalId, toolCallId);
      return [
        { type: "tool-approval-request", approvalId, toolCallId, isAutomatic: true },
        { type: "tool-approval-response", approvalId, approved: true },
      ];
    });
  }

  /**
   * Applies the decision on an approval: marks the call as denied if it is `reject`, and approves it otherwise. Returns
   * the response and the chunks of the denial. Returns null if there is no such approval, or no decision.
   */
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
    if (call?.isSynthetic) call.isDone = true;
    return { response, denied: [{ type: "tool-output-denied", toolCallId }] };
  }

  /**
   * Marks all open calls as done and returns their outputs: an error, or null for a call that an approval created.
   * Denied calls get none.
   */
  endOpen(): UIMessageChunk[] {
    return [...this.#calls].flatMap(([toolCallId, call]): UIMessageChunk[] => {
      if (call.isDone) return [];
      call.isDone = true;
      if (this.#denied.has(toolCallId)) return [];
      return [
        call.isSynthetic
          ? createOutputChunk(toolCallId, call, null)
          : createOutputErrorChunk(toolCallId, call, "Not run"),
      ];
    });
  }

  #findOpenCalls(message_id: string): [string, ToolCall][] {
    return [...this.#calls].filter(([, call]) => call.message_id === message_id && !call.isDone);
  }
}

/** Returns the parsed content if it is a text of JSON, else the content unchanged. */
function parseContent(content: Json): Json {
  if (typeof content !== "string") return content;
  try {
    return JSON.parse(content) as Json;
  } catch {
    return content;
  }
}
