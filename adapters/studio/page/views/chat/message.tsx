/** Shows a message of a conversation, with its tool calls and actions. */
import type { VNode } from "preact";
import { memo } from "preact/compat";
import { useState } from "preact/hooks";
import { toHref } from "../../frame/router.ts";
import { copy, focusOnMount, formatCount, formatDuration, formatMoney, Status } from "../../parts/components.tsx";
import { Json, TruncatedText } from "../../parts/json.tsx";
import { Markdown } from "../../parts/markdown.tsx";
import { discardDrafts, readDraft, saveDraft } from "../../store/drafts.ts";
import { useResource } from "../../store/resource.ts";
import type { Fork } from "./history.ts";
import {
  type ChatMessage,
  findImageUrl,
  getAttachments,
  getReasoning,
  getText,
  separateResults,
  type ToolCall,
} from "./messages.ts";
import type { Nested } from "./source.ts";
import type { TurnRuns } from "./turns.ts";

const ROLES: Readonly<Record<string, string>> = { human: "you", ai: "ai", tool: "tool", system: "system" };

export interface MessageActions {
  readonly edit: (message: ChatMessage, text: string) => void;
  readonly regenerate: (message: ChatMessage) => void;
  readonly branch: (checkpoint_id: string) => void;
  readonly locate: (message: ChatMessage) => void;
  /** Reads the messages of a subagent by the result of its tool call. */
  readonly subagent: (result: ChatMessage) => Promise<readonly ChatMessage[]>;
}

interface ToolCardProps {
  /** The actions; undefined while a run streams. */
  readonly actions: MessageActions | undefined;
  readonly call: ToolCall;
  readonly result: ChatMessage | undefined;
  readonly running: boolean;
  readonly ms: number | undefined;
  readonly nested: Nested | undefined;
}

/** Shows the name of a subagent, whether it runs, and the number of its messages; unfolded, the messages themselves. */
export function Subagent({ nested }: { readonly nested: Nested }): VNode {
  const { name, messages, isOver } = nested;
  const { withoutResults, results } = separateResults(messages);
  return (
    <details class="subagent">
      <summary>
        <Status value={isOver ? "success" : "running"} short />
        <code>{name}</code>{" "}
        <span class="faint">
          {messages.length} {messages.length === 1 ? "message" : "messages"}
        </span>
      </summary>
      {withoutResults.map((message, index) => (
        <Bubble key={message.id ?? index} message={message} results={results} running={!isOver} />
      ))}
    </details>
  );
}

interface PastSubagentProps {
  readonly call: ToolCall;
  readonly result: ChatMessage;
  readonly read: MessageActions["subagent"];
}

/**
 * Shows the messages of the subagent of a tool call, which `read` reads, as finished. Shows nothing while they are
 * read, if there are none, or if the read fails.
 */
function PastSubagent({ call, result, read }: PastSubagentProps): VNode | null {
  const { data: messages = [] } = useResource(`subagent/${result.id}`, () => read(result));
  const { subagent_type = call.name } = (call.args ?? {}) as { readonly subagent_type?: unknown };
  if (messages.length === 0) return null;
  return <Subagent nested={{ name: String(subagent_type), call: call.id, isOver: true, messages }} />;
}

/**
 * Shows a tool call with its arguments, result and time, and the subagent that it ran. A past subagent is read when the card is
 * opened.
 */
function ToolCard({ actions, call, result, running, ms, nested }: ToolCardProps): VNode {
  const [isOpen, setOpen] = useState(false);
  const failed = result?.status === "error";
  const state = result ? (failed ? "error" : "success") : running ? "running" : "pending";
  const sign = { error: "✕", success: "✓", running: "●", pending: "◌" }[state];
  return (
    <details class={`tool ${state}`} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <span class={`status ${state}`}>
          <span class="sign" role="img" aria-label={state}>
            {sign}
          </span>
        </span>
        <code>{call.name}</code>
        <span class="faint args">{JSON.stringify(call.args)?.slice(0, 300)}</span>
        {ms === undefined ? null : <span class="faint">{formatDuration(ms)}</span>}
      </summary>
      <p class="label">Arguments</p>
      <Json value={call.args} />
      {nested ? (
        <Subagent nested={nested} />
      ) : isOpen && result && actions ? (
        <PastSubagent call={call} result={result} read={actions.subagent} />
      ) : null}
      {result ? (
        <>
          <p class="label">{failed ? "Error" : "Result"}</p>
          <ToolResult message={result} />
        </>
      ) : null}
    </details>
  );
}

/** Shows the result as a tree if it is JSON, else as text, cut if it is long. */
function ToolResult({ message }: { readonly message: ChatMessage }): VNode {
  const text = getText(message);
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return <Json value={value} />;
  } catch {
    // Plain text.
  }
  return (
    <TruncatedText text={text} name={`result-${message.id}.txt`}>
      {(visibleText) => <pre class="result">{visibleText}</pre>}
    </TruncatedText>
  );
}

/** Shows the images and names of files of a message; nothing if it has none. */
function Attachments({ message }: { readonly message: ChatMessage }): VNode | null {
  const blocks = getAttachments(message);
  if (blocks.length === 0) return null;
  return (
    <div class="attachments">
      {blocks.map((block, index) => {
        const image = findImageUrl(block);
        const { filename, metadata } = block as unknown as {
          readonly filename?: string;
          readonly metadata?: { readonly filename?: string; readonly name?: string };
        };
        const name = filename ?? metadata?.filename ?? metadata?.name ?? block.type;
        // biome-ignore lint/suspicious/noArrayIndexKey: blocks have no names and stay in order
        return image ? <img key={index} src={image} alt={name} /> : <span key={index}>📎 {name}</span>;
      })}
    </div>
  );
}

/**
 * Shows which version of a message is on the path, and buttons that call `branch` with the checkpoint of the version
 * before or after it.
 */
function VersionSwitcher({ fork, branch }: { readonly fork: Fork; readonly branch: (id: string) => void }): VNode {
  const { index, options } = fork;
  const step = (to: number): void => {
    const option = options[to];
    if (option) branch(option);
  };
  return (
    <span class="branches" role="group" aria-label="Versions">
      <button
        type="button"
        class="quiet"
        aria-label="Earlier version"
        disabled={index === 0}
        onClick={() => step(index - 1)}
      >
        ‹
      </button>
      <span>
        {index + 1}/{options.length}
      </span>
      <button
        type="button"
        class="quiet"
        aria-label="Later version"
        disabled={index === options.length - 1}
        onClick={() => step(index + 1)}
      >
        ›
      </button>
    </span>
  );
}

/**
 * Shows the model of a message and its tokens. After the last message of a turn, shows the tokens (if known), cost and
 * duration of the turn instead, and a link to its run. Shows nothing if there is nothing to show.
 */
function MessageUsage({
  message,
  turn,
}: {
  readonly message: ChatMessage;
  readonly turn: TurnRuns | undefined;
}): VNode | null {
  const { usage_metadata: usage, response_metadata: response } = message;
  const model = response?.["model_name"] ?? response?.["model"];
  const [tokens_in, tokens_out] =
    turn && turn.tokens_in + turn.tokens_out > 0
      ? [turn.tokens_in, turn.tokens_out]
      : [usage?.input_tokens ?? 0, usage?.output_tokens ?? 0];
  const parts = [
    typeof model === "string" ? model : "",
    tokens_in + tokens_out > 0 ? `${formatCount(tokens_in)} in, ${formatCount(tokens_out)} out` : "",
    turn && turn.cost_usd > 0 ? formatMoney(turn.cost_usd) : "",
    turn && turn.duration_ms !== null ? formatDuration(turn.duration_ms) : "",
  ].filter(Boolean);
  if (parts.length === 0 && !turn) return null;
  return (
    <span class="faint about">
      {parts.join(" · ")}
      {turn ? (
        <>
          {parts.length > 0 ? " · " : ""}
          <a href={toHref(["runs", turn.run_id])}>Run</a>
        </>
      ) : null}
    </span>
  );
}

export const toEditDraftKey = ({ id }: ChatMessage): string => `edit ${id}`;

interface EditBoxProps {
  /** The key of the draft. */
  readonly draftKey: string;
  readonly text: string;
  readonly save: (text: string) => void;
  readonly close: () => void;
}

/**
 * Shows the box to edit a message. What is typed is kept as a draft. A button, or Enter with Ctrl or ⌘, calls `save`
 * with the text; Escape and Cancel discard the draft and close the box.
 */
function EditBox({ draftKey, text, save, close }: EditBoxProps): VNode {
  const value = readDraft(draftKey, text);
  /** Discards the draft and closes the box. */
  const cancel = (): void => {
    discardDrafts(draftKey);
    close();
  };
  return (
    <div class="edit-box">
      <textarea
        aria-label="Edit message"
        rows={Math.min(12, value.split("\n").length + 1)}
        value={value}
        ref={focusOnMount}
        onInput={(event) => saveDraft(draftKey, event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") cancel();
          else if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) save(value);
          else return;
          event.preventDefault();
          event.stopPropagation();
        }}
      />
      <div class="buttons">
        <button type="button" class="primary" onClick={() => save(value)}>
          Run from here
        </button>
        <button type="button" onClick={cancel}>
          Cancel
        </button>
      </div>
    </div>
  );
}

interface BubbleProps {
  readonly message: ChatMessage;
  /** Tool messages by the id of their call. */
  readonly results?: ReadonlyMap<string, ChatMessage>;
  readonly times?: ReadonlyMap<string, number>;
  /** Subagents by the id of their call. */
  readonly nested?: ReadonlyMap<string, Nested>;
  readonly fork?: Fork | undefined;
  /** The runs of the turn; set for its last message. */
  readonly turn?: TurnRuns | undefined;
  readonly running?: boolean;
  readonly canChange?: boolean;
  readonly editing?: boolean;
  readonly setEditing?: (id: string | null) => void;
  readonly actions?: MessageActions;
}

/**
 * Returns true if the props that a message shows are the same by identity, so that it is not rendered again. Of `results`,
 * `times` and `nested` only the entries of its tool calls count, and `running` only if it has such calls.
 */
function hasSameProps(before: BubbleProps, after: BubbleProps): boolean {
  const calls = after.message.tool_calls ?? [];
  return (
    before.message === after.message &&
    before.fork === after.fork &&
    before.turn === after.turn &&
    before.editing === after.editing &&
    before.canChange === after.canChange &&
    before.actions === after.actions &&
    calls.every(({ id = "" }) =>
      (["results", "times", "nested"] as const).every((name) => before[name]?.get(id) === after[name]?.get(id)),
    ) &&
    (calls.length === 0 || before.running === after.running)
  );
}

/**
 * Shows a message: its reasoning folded, attachments, text (plain for a person, a tree for JSON of a tool, else Markdown), tool
 * calls and usage. `actions` add buttons to copy and to open the state; with `canChange` a person's message can be edited and an
 * answer regenerated. With `editing`, an edit box replaces the text.
 */
export const Bubble = memo(function Bubble(props: BubbleProps): VNode {
  const { message, results, times, nested, fork, turn, running = false, canChange, editing, actions } = props;
  const setEditing = props.setEditing ?? (() => {});
  const text = getText(message);
  const reasoning = getReasoning(message);
  const isHuman = message.type === "human";
  const role = ROLES[message.type] ?? message.type;
  const file = `message-${message.id}.txt`;
  return (
    <article class={`message ${message.type}`} aria-label={`Message of ${role}`}>
      <p class="role">{message.name && message.type === "tool" ? message.name : role}</p>
      <div class="body">
        {reasoning ? (
          <details class="reasoning">
            <summary>Reasoning</summary>
            <Markdown text={reasoning} />
          </details>
        ) : null}
        <Attachments message={message} />
        {editing && actions ? (
          <EditBox
            draftKey={toEditDraftKey(message)}
            text={text}
            close={() => setEditing(null)}
            save={(changed) => actions.edit(message, changed)}
          />
        ) : message.type === "tool" ? (
          <ToolResult message={message} />
        ) : text && isHuman ? (
          <TruncatedText text={text} name={file}>
            {(visibleText) => <p class="plain">{visibleText}</p>}
          </TruncatedText>
        ) : text ? (
          <Markdown text={text} name={file} />
        ) : null}
        {message.tool_calls?.map((call, index) => (
          <ToolCard
            key={call.id ?? index}
            actions={canChange ? actions : undefined}
            call={call}
            result={results?.get(call.id ?? "")}
            running={running}
            ms={times?.get(call.id ?? "")}
            nested={nested?.get(call.id ?? "")}
          />
        ))}
        <footer>
          {fork && actions ? <VersionSwitcher fork={fork} branch={actions.branch} /> : null}
          {actions && !editing ? (
            <span class="message-actions">
              <button type="button" class="quiet" onClick={() => void copy(text, "Copied message")}>
                Copy
              </button>
              {isHuman && canChange ? (
                <button type="button" class="quiet" onClick={() => setEditing(message.id ?? null)}>
                  Edit
                </button>
              ) : null}
              {message.type === "ai" && canChange ? (
                <button type="button" class="quiet" onClick={() => actions.regenerate(message)}>
                  Regenerate
                </button>
              ) : null}
              <button type="button" class="quiet" onClick={() => actions.locate(message)}>
                State
              </button>
            </span>
          ) : null}
          <MessageUsage message={message} turn={turn} />
        </footer>
      </div>
    </article>
  );
}, hasSameProps);
