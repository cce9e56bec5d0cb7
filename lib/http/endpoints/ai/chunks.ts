/** Maps the events of runs to chunks of the AI SDK's UI message stream. */

import { type Action, parseApproval } from "../../../executor/approvals.ts";
import { addNumbers } from "../../../executor/message-merge.ts";
import { isObject, type Json } from "../../../json.ts";
import type { RunEvent } from "../run-events.ts";
import {
  type AiVersion,
  createFinishChunk,
  createInputChunk,
  createInputStartChunk,
  createInterruptChunk,
  type PendingInterrupt,
  toCustomChunk,
  toFileChunk,
  toFinishReason,
  toSourceChunks,
  type UIMessageChunk,
} from "./chunk-parts.ts";
import { SubagentOutputs } from "./subagents.ts";
import { ToolCalls } from "./tool-calls.ts";

export type { AiVersion, PendingInterrupt, UIMessageChunk } from "./chunk-parts.ts";

/** An interrupt that was pending, and its resume value as the graph got it. Without a value it stays pending. */
export interface AnsweredInterrupt extends PendingInterrupt {
  readonly answer?: Json;
  /** The client that sent the answer has it in its message. Stored in the metadata of runs, so the name stays. */
  readonly answered_there?: boolean;
}

/** Returns true for the namespace of a subagent: the model or graph of a tool. */
export const isSubagent = (namespace: readonly string[]): boolean =>
  namespace.some((part) => /^(?:tools|task):/.test(part));

type MessageEvent = Extract<RunEvent, { readonly message_id: string }>;
type PartEvent = Exclude<MessageEvent, { readonly type: "message-open" | "message-close" | "tool-result" }>;

/**
 * Maps the events of the runs of one message, in their order. One AI message of the graph is one step. Chunks of messages that are
 * written concurrently are emitted one message after the other.
 */
export class UIMessageMapper {
  readonly #version: AiVersion;
  readonly #calls = new ToolCalls();
  readonly #subagents = new SubagentOutputs();
  readonly #unconfirmed = new UnconfirmedMessages();
  /** The messages that the page does not show: those of the user and of the system. */
  readonly #ignoredIds = new Set<string>();
  #isStepOpen = false;
  /** The AI message that is open; null between two messages. */
  #current: string | null = null;
  #newest = "";
  /** Events of other messages, queued until the open one ends. */
  #queuedEvents: RunEvent[] = [];
  #pendingIds: string[] = [];
  #hasFailed = false;
  #reason = "stop";
  #usage: Json = null;

  constructor(version: AiVersion = 7) {
    this.#version = version;
  }

  /** Returns the usage of the mapped messages; null without usage. */
  get usage(): Json {
    return this.#usage;
  }

  /**
   * Maps one event of a run. Returns no chunks for an event of a message that waits for the end of another one, which is then
   * mapped later.
   */
  map(event: RunEvent): UIMessageChunk[] {
    if (!("message_id" in event)) return this.#mapRunEvent(event);
    if (event.type === "tool-result") return this.#mapToolResult(event);
    if (isSubagent(event.namespace)) return this.#calls.mapPreliminaryOutput(this.#subagents.collectOutput(event));
    return this.#mapMessageEvent(event);
  }

  /**
   * Maps the interrupts of earlier runs with the resume values that the next run gets; those without a value become the
   * pending ones. Closes the open step. Approvals give responses (only in version 7), then denials, and other values
   * data chunks.
   */
  mapAnswers(interrupts: readonly AnsweredInterrupt[]): UIMessageChunk[] {
    const chunks = this.#closeStep();
    // A response sets the state of its call, so all of them come before the outputs that follow from them.
    const denied: UIMessageChunk[] = [];
    this.#pendingIds = interrupts.flatMap(({ id, answer }) => (answer === undefined ? [id] : []));
    for (const { id, value, answer } of interrupts) {
      if (answer === undefined) continue;
      const actions = this.#findActions(value);
      if (!actions) {
        chunks.push(createInterruptChunk({ id, value, open: false, answer }));
        continue;
      }
      const decisions = isObject(answer) && Array.isArray(answer.decisions) ? answer.decisions : [];
      for (const index of actions.keys()) {
        const decisionChunks = this.#calls.decide(`${id}:${index}`, decisions[index]);
        if (decisionChunks && this.#version === 7) chunks.push(decisionChunks.response);
        denied.push(...(decisionChunks?.denied ?? []));
      }
    }
    return [...chunks, ...denied];
  }

  /**
   * Closes the open step and returns its end. Before that ends the tool calls that never ran, or, with pending
   * interrupts, approves the other calls of a message that waits for approval. Returns no finish.
   */
  close(): UIMessageChunk[] {
    const calls = this.#pendingIds.length > 0 ? this.#approveOthers() : this.#calls.endOpen();
    return [...calls, ...this.#closeStep()];
  }

  /**
   * Maps an event that belongs to no message. Starts, updates and tasks change the state of the mapper and give no chunk; after
   * an error the end gives none either.
   */
  #mapRunEvent(event: Exclude<RunEvent, { readonly message_id: string }>): UIMessageChunk[] {
    switch (event.type) {
      case "interrupt":
        return this.#mapInterrupt(event);
      case "custom":
        return [toCustomChunk(event.data)];
      case "start":
        this.#unconfirmed.startAttempt(this.#isStepOpen ? this.#newest : null);
        return [];
      case "update":
        this.#unconfirmed.confirm(event.values);
        return [];
      case "frame":
        if (event.event === "tasks") this.#subagents.registerTask(event.data);
        return [];
      case "error":
        return this.#mapError(event.message || event.error);
      case "end":
        return this.#hasFailed ? [] : this.#end(event.status);
      default:
        return [];
    }
  }

  /**
   * Returns the last chunks of a failed run: open calls end, then the error, the end of the step and the finish. Marks the
   * message as failed.
   */
  #mapError(errorText: string): UIMessageChunk[] {
    this.#hasFailed = true;
    const calls = this.#calls.endOpen();
    return [...calls, { type: "error", errorText }, ...this.#closeStep(), createFinishChunk("error", this.#usage)];
  }

  /**
   * Returns the last chunks of a run: the ends of what is open, and a finish; before it an abort if the run was cancelled. Errors have no
   * chunk here. The reason is `tool-calls` if the client must approve or answer a call.
   */
  #end(status: string): UIMessageChunk[] {
    // A cancelled run has one of these statuses. An interrupted run ends with `success`.
    if (status === "interrupted" || status === "rollback") {
      this.#pendingIds = [];
      return [...this.close(), { type: "abort", reason: "cancelled" }, createFinishChunk("other", this.#usage)];
    }
    const hasApprovalRequest = this.#pendingIds.some((id) => this.#calls.hasApprovalRequest(id));
    const isCall = hasApprovalRequest || (this.#pendingIds.length === 0 && this.#calls.hasOpen(this.#newest));
    return [...this.close(), createFinishChunk(isCall ? "tool-calls" : this.#reason, this.#usage)];
  }

  /** Maps an event of a message. While another message is open, queues it for the end of that one and returns no chunks. */
  #mapMessageEvent(event: Exclude<MessageEvent, { readonly type: "tool-result" }>): UIMessageChunk[] {
    const { message_id } = event;
    if (event.type === "message-open") this.#unconfirmed.add(message_id);
    if (this.#current !== null && this.#current !== message_id) {
      this.#queuedEvents.push(event);
      return [];
    }
    if (event.type === "message-open") return this.#open(event);
    if (this.#ignoredIds.has(message_id)) return [];
    return event.type === "message-close" ? this.#closeMessage(event) : this.#mapPart(event);
  }

  /**
   * Opens an AI message as a new step: returns the end of the open step and the start. After a lost attempt returns a
   * reset of the step (version 7), or nothing if the message has the same id. Ignores messages of other roles and their
   * later events.
   */
  #open({ message_id, role }: Extract<RunEvent, { type: "message-open" }>): UIMessageChunk[] {
    if (role !== "ai") {
      this.#ignoredIds.add(message_id);
      return [];
    }
    const lost = this.#unconfirmed.drainLost();
    this.#current = message_id;
    this.#newest = message_id;
    this.#ignoredIds.delete(message_id);
    // A durable function continues the message of an earlier attempt.
    if (lost === message_id) return [];
    if (lost !== null && this.#version === 7) {
      this.#calls.removeMessage(lost);
      return [{ type: "reset-step" }];
    }
    const chunks: UIMessageChunk[] = [...this.#closeStep(), { type: "start-step" }];
    this.#isStepOpen = true;
    return chunks;
  }

  /**
   * Forgets the open message, keeps its finish reason, and adds its usage to that of the run. Returns only the chunks of the events that
   * were queued for its end.
   */
  #closeMessage({ reason, usage }: Extract<RunEvent, { type: "message-close" }>): UIMessageChunk[] {
    this.#current = null;
    this.#reason = toFinishReason(reason);
    if (usage) this.#usage = addNumbers(this.#usage, usage);
    const queuedEvents = this.#queuedEvents;
    this.#queuedEvents = [];
    return queuedEvents.flatMap((event) => this.map(event));
  }

  /** Maps a part of the open message. A complete tool call is kept for its result. */
  #mapPart(event: PartEvent): UIMessageChunk[] {
    switch (event.type) {
      case "text-open":
      case "reasoning-open":
        return [{ type: event.type.replace("open", "start"), id: event.id }];
      case "text-delta":
      case "reasoning-delta":
        return [{ type: event.type, id: event.id, delta: event.delta }];
      case "text-close":
      case "reasoning-close":
        return [{ type: event.type.replace("close", "end"), id: event.id }, ...toSourceChunks(event.id, event.block)];
      case "tool-call-open":
        return [createInputStartChunk(event)];
      case "tool-call-delta":
        return [{ type: "tool-input-delta", toolCallId: event.tool_call_id, inputTextDelta: event.delta }];
      case "tool-call-close":
        this.#calls.add(event);
        return [createInputChunk(event)];
      case "file":
        return [toFileChunk(event.block) ?? []].flat();
    }
  }

  /**
   * Maps the result of a known tool call. While a message is open, queues the result of an unknown one; else drops it. Results
   * inside a subagent give no chunk.
   */
  #mapToolResult(event: Extract<RunEvent, { type: "tool-result" }>): UIMessageChunk[] {
    if (!this.#calls.has(event.tool_call_id)) {
      // Its call can be incomplete, or part of a message that is queued behind the open one.
      if (this.#current !== null) this.#queuedEvents.push(event);
      return [];
    }
    // The last level is the tool node itself.
    return isSubagent(event.namespace.slice(0, -1)) ? [] : this.#calls.mapResult(event);
  }

  /**
   * Maps an interrupt to its chunk or to requests for approvals, and keeps it as pending. A repeated approval gives no chunks.
   */
  #mapInterrupt({ id, value }: PendingInterrupt): UIMessageChunk[] {
    if (!this.#pendingIds.includes(id)) this.#pendingIds.push(id);
    const actions = this.#findActions(value);
    if (!actions) return [createInterruptChunk({ id, value, open: true })];
    // A run that resumes another interrupt raises this one again.
    if (this.#calls.hasApprovalRequest(id)) return [];
    return actions.flatMap((action, index) => this.#calls.requestApproval(`${id}:${index}`, action, this.#newest));
  }

  /** Returns the actions that need approval; undefined for any other interrupt, and for versions without approvals. */
  #findActions(value: Json): readonly Action[] | undefined {
    return this.#version === 5 ? undefined : parseApproval(value)?.actions;
  }

  /** Approves the other calls of the message if one waits for approval; only in version 7. */
  #approveOthers(): UIMessageChunk[] {
    const approvalInterruptId = this.#pendingIds.find((id) => this.#calls.hasApprovalRequest(id));
    return approvalInterruptId === undefined || this.#version !== 7
      ? []
      : this.#calls.approveOthers(approvalInterruptId, this.#newest);
  }

  /** Returns the chunk that ends the open step; none if no step is open. */
  #closeStep(): UIMessageChunk[] {
    if (!this.#isStepOpen) return [];
    this.#isStepOpen = false;
    return [{ type: "finish-step" }];
  }
}

/** The messages of an attempt that no update has confirmed. If the attempt is lost, the next one writes them again. */
class UnconfirmedMessages {
  readonly #ids = new Set<string>();
  #hasStarted = false;
  /** The message of the open step, if its attempt was lost. */
  #lost: string | null = null;

  add(id: string): void {
    this.#ids.add(id);
  }

  /** Marks the messages of an update as stored, so that a new attempt does not lose them. */
  confirm(values: Json): void {
    for (const message of isObject(values) ? Object.values(values).flat() : []) {
      if (isObject(message) && typeof message.id === "string") this.#ids.delete(message.id);
    }
  }

  /**
   * Starts an attempt. Keeps the message of the open step as lost, unless the attempt is the first or an update of the
   * attempt before has confirmed it. Forgets all other messages.
   */
  startAttempt(open: string | null): void {
    // Messages before the first attempt come from the stored state and are never lost.
    if (open !== null && this.#hasStarted && this.#ids.has(open)) this.#lost = open;
    this.#hasStarted = true;
    this.#ids.clear();
  }

  /** Returns the id of the message that the last attempt has lost, and forgets it. Returns null if there is none. */
  drainLost(): string | null {
    const lost = this.#lost;
    this.#lost = null;
    return lost;
  }
}
