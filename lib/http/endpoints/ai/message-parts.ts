/** Builds the parts of a UI message from the chunks of whole messages, as the AI SDK does. */
import type { Json, JsonObject } from "../../../json.ts";
import type { UIMessageChunk } from "./chunks.ts";

/** Returns the parts that the AI SDK makes of these chunks. */
export function buildParts(chunks: readonly UIMessageChunk[]): JsonObject[] {
  const builder = new PartBuilder();
  for (const chunk of chunks) builder.add(chunk);
  return builder.parts;
}

/** An approval request, and the tool call that it is for. */
interface ApprovalRequest {
  readonly approval: JsonObject;
  readonly toolCallId: Json;
}

class PartBuilder {
  readonly parts: JsonObject[] = [];
  readonly #openTexts = new Map<Json, JsonObject>();
  readonly #calls = new Map<Json, JsonObject>();
  readonly #approvals = new Map<Json, ApprovalRequest>();

  /** Applies a chunk to the parts, as the AI SDK does. Ignores transient data and other types. */
  add(chunk: UIMessageChunk): void {
    const { type } = chunk;
    const members = toCallMembers(chunk);
    if (members) this.#setCall(chunk, members);
    else if (/^(?:text|reasoning)-(?:start|delta|end)$/.test(type)) this.#addText(chunk);
    else if (type === "tool-approval-request") this.#requestApproval(chunk);
    else if (type === "tool-approval-response") this.#respondToApproval(chunk);
    else if (type === "start-step") this.parts.push({ type: "step-start" });
    else if (type === "file" || type === "source-url") this.parts.push({ ...chunk });
    else if (type.startsWith("data-") && chunk.transient !== true) this.#setData(chunk);
  }

  /** Starts, extends or ends a text or reasoning part. Ignores deltas of a part that is not open. */
  #addText({ type, id = null, delta = "" }: UIMessageChunk): void {
    const [kind = "", phase] = type.split("-");
    if (phase === "start") {
      const part: JsonObject = { type: kind, text: "", ...(kind === "reasoning" ? { id } : {}) };
      this.parts.push(part);
      this.#openTexts.set(id, part);
      return;
    }
    const part = this.#openTexts.get(id);
    if (part && phase === "delta") part.text = `${part.text}${delta}`;
    else if (part) part.state = "done";
  }

  /**
   * Changes the part of a known tool call in place, or adds a part if the chunk names the tool. Does nothing for an
   * unknown call without a name.
   */
  #setCall({ toolCallId = null, toolName = null, dynamic }: UIMessageChunk, members: JsonObject): void {
    const existing = this.#calls.get(toolCallId);
    if (existing) Object.assign(existing, members);
    if (existing || toolName === null) return;
    const type: JsonObject = dynamic === true ? { type: "dynamic-tool", toolName } : { type: `tool-${toolName}` };
    const part = { ...type, toolCallId, providerExecuted: true, ...members };
    this.#calls.set(toolCallId, part);
    this.parts.push(part);
  }

  /** Sets the part of the call to `approval-requested`, and keeps the request for its response. */
  #requestApproval(chunk: UIMessageChunk): void {
    const { approvalId = null, reason, approvalDescriptor, isAutomatic, toolCallId = null } = chunk;
    const approval: JsonObject = {
      id: approvalId,
      ...(approvalDescriptor === undefined ? {} : { descriptor: approvalDescriptor }),
      ...(reason === undefined ? {} : { requestReason: reason }),
      ...(isAutomatic === true ? { isAutomatic } : {}),
    };
    this.#approvals.set(approvalId, { approval, toolCallId });
    this.#setCall(chunk, { state: "approval-requested", approval });
  }

  /**
   * Sets the part of the call to `approval-responded`, with the request and its response. Ignores a response without a
   * request.
   */
  #respondToApproval({ type, approvalId = null, approved = false, reason }: UIMessageChunk): void {
    const request = this.#approvals.get(approvalId);
    if (!request) return;
    const approval = { ...request.approval, approved, ...(reason === undefined ? {} : { reason }) };
    this.#setCall({ type, toolCallId: request.toolCallId }, { state: "approval-responded", approval });
  }

  /** Replaces the data of the part with this type and id. Adds a part if there is none, and for data without an id. */
  #setData(chunk: UIMessageChunk): void {
    const { type, id = null, data = null } = chunk;
    const existing = this.parts.find((part) => id !== null && part.type === type && part.id === id);
    if (existing) existing.data = data;
    else this.parts.push({ ...chunk });
  }
}

/**
 * Returns the members that a chunk sets in the part of its tool call, such as its state. Returns null for chunks of no
 * call and for approvals.
 */
function toCallMembers({ type, input = null, output = null, errorText = "" }: UIMessageChunk): JsonObject | null {
  switch (type) {
    case "tool-input-start":
      return { state: "input-streaming" };
    case "tool-input-available":
      return { state: "input-available", input };
    case "tool-input-error":
      return { state: "output-error", input, errorText };
    case "tool-output-available":
      return { state: "output-available", output };
    case "tool-output-error":
      return { state: "output-error", errorText };
    case "tool-output-denied":
      return { state: "output-denied" };
    default:
      return null;
  }
}
