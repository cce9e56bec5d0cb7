/** The conversation of a thread. */
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { useKey } from "../../frame/keyboard.ts";
import { attempt } from "../../frame/notices.tsx";
import { go, pageAddress, toHref, toListHref } from "../../frame/router.ts";
import { readHumanRequest } from "../../parts/approval.tsx";
import { Empty, formatCount, formatWait, Skeleton } from "../../parts/components.tsx";
import type { Schema } from "../../parts/form.tsx";
import { Interrupts } from "../../parts/interrupt.tsx";
import { Json } from "../../parts/json.tsx";
import { discardDrafts } from "../../store/drafts.ts";
import { acceptsMessages, Composer, createMessageInput, type InputMode } from "./composer.tsx";
import {
  type Checkpoint,
  type Fork,
  findFirstCheckpoint,
  findNewestDescendant,
  findPath,
  type History,
  readForks,
  readSubagentMessages,
  useHistory,
} from "./history.ts";
import { Bubble, type MessageActions, Subagent, toEditDraftKey } from "./message.tsx";
import { type ChatMessage, separateResults } from "./messages.ts";
import type { ChatSource, ChatState } from "./source.ts";
import { useToolTimes } from "./tool-times.ts";
import { type TurnRuns, useTurnRuns } from "./turns.ts";

interface ChatProps {
  readonly thread_id: string;
  readonly source: ChatSource;
  readonly assistant_id: string | null;
  /** False while the assistant and its schemas are loading. */
  readonly isAssistantLoaded: boolean;
  readonly schema: Schema | null;
  readonly context: Readonly<Record<string, unknown>>;
}

/** The number of messages in the page at first. */
const MESSAGES_AT_FIRST = 60;

/**
 * Scrolls the box of the conversation to its end when one of `changes` does, if its end was in view. Returns the parts
 * for the box, and `isAtEnd`, which a caller sets to scroll with the next change.
 */
function useScrollToEnd(changes: readonly unknown[]) {
  const box = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  useLayoutEffect(() => {
    if (isAtEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, changes);
  /** Notes whether the end is in view; only then new messages scroll the page. */
  const onScroll = (): void => {
    const { scrollTop = 0, scrollHeight = 0, clientHeight = 0 } = box.current ?? {};
    isAtEnd.current = scrollHeight - scrollTop - clientHeight < 40;
  };
  return { box, isAtEnd, onScroll };
}

/**
 * Returns the history of a thread, and the versions of its messages by message id. While a run streams, and if a read
 * of the versions fails, the last versions stay; empty before the first read.
 */
function useForks(thread_id: string, state: ChatState) {
  const history = useHistory(thread_id, state);
  const { checkpoint_id } = state;
  const isAtRest = state.phase !== "running";
  const [forks, setForks] = useState<ReadonlyMap<string, Fork>>(new Map());
  useEffect(() => {
    if (!history.data || !isAtRest) return;
    let isOver = false;
    readForks(thread_id, history.data, findPath(history.data, checkpoint_id))
      .then((loadedForks) => {
        if (!isOver) setForks(loadedForks);
      })
      .catch(() => {});
    return () => {
      isOver = true;
    };
  }, [history.data, checkpoint_id, isAtRest, thread_id]);
  return { history: history.data, forks };
}

interface TurnOperations {
  send(input: unknown, from?: string | null, before?: ChatMessage): Promise<void>;
  readonly actions: MessageActions;
}

/** Returns the operations of a conversation. Calls `begin` before each turn, and again with the message id after an edit failed. */
function useTurnOperations(
  props: ChatProps,
  history: History | undefined,
  begin: (editing?: string | null) => void,
): TurnOperations {
  const { thread_id, source, assistant_id, context } = props;
  const { checkpoint_id } = source.state.value;
  return useMemo(() => {
    /**
     * Calls `begin` and sends input as a new run, from a checkpoint if one is given. With `before`, the messages from that one on
     * disappear at once. Rejects if no run was started. Does nothing without an assistant.
     */
    const send: TurnOperations["send"] = async (input, from, before) => {
      if (!assistant_id) return;
      begin();
      const messages = source.state.value.messages ?? [];
      const index = before ? messages.findIndex(({ id }) => id === before.id) : -1;
      await source.send({
        ...{ assistant_id, input, context },
        ...(from === undefined ? {} : { checkpoint_id: from }),
        ...(index < 0 ? {} : { after: messages.slice(0, index) }),
      });
    };
    const locateMessage = async (message: ChatMessage): Promise<Checkpoint | undefined> =>
      history && (await findFirstCheckpoint(thread_id, findPath(history, checkpoint_id), message.id ?? ""));
    /**
     * Resolves with the checkpoint from which another version of a message starts, so that all versions have one
     * parent. It is the one before the message; the message's own if that is the first, and null if the history is not
     * loaded.
     */
    const findForkPoint = async (message: ChatMessage): Promise<string | null> => {
      const first = await locateMessage(message);
      const parent = history?.byId.get(first?.parent_id ?? "");
      // All versions come after what came before the first one, not after each other.
      const source = message.type === "human" ? "input" : "fork";
      if (parent?.metadata["source"] === source && parent.parent_id !== null) return parent.parent_id;
      return first?.parent_id ?? first?.checkpoint_id ?? null;
    };
    return {
      send,
      actions: {
        edit: (message, text) =>
          attempt("Edit", async () => {
            try {
              await send(createMessageInput(text), await findForkPoint(message), message);
              discardDrafts(toEditDraftKey(message));
            } catch (error) {
              begin(message.id);
              throw error;
            }
          }),
        regenerate: (message) => attempt("Regenerate", async () => send(null, await findForkPoint(message), message)),
        /** Shows the newest state that follows from a checkpoint; as the head if it is that. */
        branch(id) {
          if (!history) return;
          const newest = findNewestDescendant(history, id);
          const isHead = history.all[0]?.checkpoint_id === newest;
          attempt("Switch", () => source.show(isHead ? null : newest));
        },
        subagent: async (result) =>
          history ? await readSubagentMessages(thread_id, findPath(history, checkpoint_id), result) : [],
        locate: (message) =>
          attempt("State", async () => {
            const checkpoint = (await locateMessage(message))?.checkpoint_id;
            go(toListHref(["threads", thread_id], { tab: "state", checkpoint }));
          }),
      },
    };
  }, [history, checkpoint_id, assistant_id, source, context]);
}

interface MessagesProps {
  readonly state: ChatState;
  readonly forks: ReadonlyMap<string, Fork>;
  readonly turns: ReadonlyMap<string, TurnRuns>;
  readonly times: ReadonlyMap<string, number>;
  readonly canChange: boolean;
  readonly editing: string | null;
  readonly setEditing: (id: string | null) => void;
  readonly actions: MessageActions;
}

/** Shows the newest messages, and earlier ones on demand. Results of tools are part of the message that called them. */
function Messages({ state, forks, turns, times, canChange, editing, setEditing, actions }: MessagesProps): VNode {
  const running = state.phase === "running";
  const messages = state.messages ?? [];
  const [windowSize, setWindowSize] = useState(MESSAGES_AT_FIRST);
  /** The height below the top of the box before earlier messages are added, to restore the scroll position. */
  const scrollAnchor = useRef<{ readonly box: Element; readonly height: number } | null>(null);
  useLayoutEffect(() => {
    if (scrollAnchor.current)
      scrollAnchor.current.box.scrollTop = scrollAnchor.current.box.scrollHeight - scrollAnchor.current.height;
    scrollAnchor.current = null;
  }, [windowSize]);
  const { withoutResults: visible, results } = useMemo(() => separateResults(messages), [state.messages]);
  const nested = new Map([...state.nested.values()].map((subagent) => [subagent.call ?? "", subagent]));
  return (
    <>
      {visible.length > windowSize ? (
        <button
          type="button"
          class="earlier"
          onClick={({ currentTarget }) => {
            const box = currentTarget.parentElement as Element;
            scrollAnchor.current = { box, height: box.scrollHeight - box.scrollTop };
            setWindowSize(windowSize + 2 * MESSAGES_AT_FIRST);
          }}
        >
          {formatCount(visible.length - windowSize)} earlier messages
        </button>
      ) : null}
      {visible.slice(-windowSize).map((message, index) => (
        <Bubble
          key={message.id ?? index}
          message={message}
          results={results}
          times={times}
          nested={nested}
          fork={forks.get(message.id ?? "")}
          turn={turns.get(message.id ?? "")}
          running={running}
          canChange={canChange}
          editing={editing !== null && editing === message.id}
          setEditing={setEditing}
          actions={actions}
        />
      ))}
    </>
  );
}

/**
 * Shows the conversation of a thread, its interrupts and errors, and the box for the next input. Binds keys to edit the last
 * message and to stop the run.
 */
export function Chat(props: ChatProps): VNode {
  const { thread_id, source, assistant_id, schema } = props;
  const state = source.state.value;
  const { phase, messages, interrupts, values, error, nested, checkpoint_id } = state;
  const running = phase === "running";
  const hasMessages = messages !== null || acceptsMessages(schema);
  const [chosen, setMode] = useState<InputMode | null>(null);
  // No field before it is known which one: another one would take its place while the person types.
  const isReady = phase !== "loading" && (messages !== null || props.isAssistantLoaded);
  const first = useRef({ assistant_id: "", mode: "message" as InputMode });
  if (isReady && assistant_id && first.current.assistant_id !== assistant_id)
    first.current = { assistant_id, mode: hasMessages ? "message" : "input" };
  const mode = chosen ?? first.current.mode;
  const [editing, setEditing] = useState<string | null>(null);
  const { history, forks } = useForks(thread_id, state);
  const { newest, turns } = useTurnRuns(thread_id, state, history);
  const times = useToolTimes(thread_id, state, newest);
  const { box, isAtEnd, onScroll } = useScrollToEnd([messages, interrupts, nested, error, turns, forks]);
  const { send, actions } = useTurnOperations(props, history, (id = null) => {
    isAtEnd.current = true;
    setEditing(id);
  });
  const lastHuman = messages?.findLast(({ type }) => type === "human");
  const stop = (): void => attempt("Stop", () => source.stop());
  // An approval that waits has the key.
  const canEdit = !!lastHuman && !running && !interrupts.some(({ value: request }) => readHumanRequest(request));
  useKey("e", "Edit the last message", () => setEditing(lastHuman?.id ?? null), { when: canEdit });
  useKey("Escape", "Stop the run", stop, { when: running, inFields: true });
  const isEmpty = phase === "idle" && !messages?.length && !hasValues(values);

  return (
    <div class="chat">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard */}
      <div class="conversation" ref={box} onScroll={onScroll} tabIndex={0} role="log" aria-label="Conversation">
        {phase === "loading" ? <Skeleton /> : null}
        {pageAddress.value.query.has("raw") || (messages === null && hasValues(values)) ? (
          <Json value={values} name={`thread-${thread_id}`} />
        ) : (
          <Messages
            state={state}
            forks={forks}
            turns={turns}
            times={times}
            canChange={!running && history !== undefined}
            editing={editing}
            setEditing={setEditing}
            actions={actions}
          />
        )}
        {isEmpty ? (
          <Empty title="Nothing here yet">
            <p class="faint">{mode === "message" ? "Send a message to start a run." : "Fill in the input and run."}</p>
            {mode === "message" && schema ? (
              <button type="button" onClick={() => setMode("input")}>
                Use an example
              </button>
            ) : null}
          </Empty>
        ) : null}
        {[...nested].map(([scope, subagent]) => (subagent.call ? null : <Subagent key={scope} nested={subagent} />))}
        {running ? <p class="working">{state.waiting_for?.map(formatWait).join(" · ") ?? "Working…"}</p> : null}
        {error ? (
          <div class="problem" role="alert">
            <p class="error-message">{error}</p>
            {running || !assistant_id ? null : (
              <button type="button" onClick={() => attempt("Retry", () => send(null))}>
                Retry
              </button>
            )}
            {!running && newest ? (
              <a class="button quiet" href={toHref(["runs", newest.run_id])}>
                Run
              </a>
            ) : null}
          </div>
        ) : null}
        {running ? null : (
          <Interrupts
            key={interrupts.map(({ interrupt_id }) => interrupt_id).join()}
            interrupts={interrupts}
            busy={checkpoint_id !== null}
            answer={(answers) => source.answer(answers)}
          />
        )}
      </div>
      {isReady ? (
        <Composer
          key={thread_id}
          draftKey={thread_id}
          assistant_id={assistant_id}
          schema={schema}
          hasMessages={hasMessages}
          mode={mode}
          setMode={setMode}
          running={running}
          disabled={!assistant_id}
          isFresh={isEmpty}
          send={send}
          stop={stop}
        />
      ) : null}
    </div>
  );
}

const hasValues = (values: unknown): boolean =>
  typeof values === "object" && values !== null && Object.keys(values).length > 0;
