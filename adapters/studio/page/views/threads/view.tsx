/** Threads: the list, and one thread with its chat, states and runs. */
import type { ComponentChildren, ComponentType, VNode } from "preact";
import { useEffect, useLayoutEffect, useMemo, useState } from "preact/hooks";
import { useDismiss, useKey } from "../../frame/keyboard.ts";
import { perform } from "../../frame/notices.tsx";
import { go, pageAddress, setQuery, toCurrentHref, toListHref } from "../../frame/router.ts";
import { AssistantSelect } from "../../parts/assistant-select.tsx";
import { copy, Empty, focusOnMount, Id, Status, shortId } from "../../parts/components.tsx";
import { Editor, type Schema } from "../../parts/form.tsx";
import { DetailHead, Panes, Tabs } from "../../parts/panes.tsx";
import { Sheet } from "../../parts/sheet.tsx";
import { useAssistants, useSchemas } from "../../store/assistants.ts";
import { DraftScope, discardDrafts, readDraft, saveDraft } from "../../store/drafts.ts";
import { Chat } from "../chat/chat.tsx";
import { createId } from "../chat/composer.tsx";
import { getOrCreateSource, holdSource } from "../chat/events-source.ts";
import type { ChatSource, ChatState } from "../chat/source.ts";
import { copyThread, removeThread, renameThread } from "./actions.ts";
import { ThreadList } from "./list.tsx";

/**
 * Loads a component once and shows it; nothing until then, and if that fails, which shows a notice. Needs a key for each
 * component: another one would get its properties.
 */
function LazyPart<Props extends object>(props: {
  readonly load: () => Promise<ComponentType<Props>>;
  readonly with: Props;
}): VNode | null {
  const [Part, setPart] = useState<ComponentType<Props> | null>(null);
  useEffect(() => {
    void perform("Open", async () => {
      const loaded = await props.load();
      setPart(() => loaded);
    });
  }, []);
  return Part ? <Part {...props.with} /> : null;
}

type Context = Readonly<Record<string, unknown>>;

interface ContextSheetProps {
  /** The key of the draft. */
  readonly draftKey: string;
  readonly schema: Schema | null;
  /** The context of the assistant. */
  readonly base: Context;
  /** The values that differ from `base`. */
  readonly context: Context;
  readonly change: (context: Context) => void;
  readonly close: () => void;
}

/**
 * Shows the sheet that edits the context of the next runs of this tab. "Use it" passes the members that differ from the
 * assistant's context to `change`, "Clear" passes none; both discard the draft and call `close`.
 */
function ContextSheet({ draftKey, schema, base, context, change, close }: ContextSheetProps): VNode {
  const value = readDraft<unknown>(draftKey, { ...base, ...context });
  /** Keeps the members that differ from the assistant's context, discards the draft and closes the sheet. */
  const applyContext = (chosen: unknown): void => {
    const isChanged = ([key, contextValue]: [string, unknown]): boolean =>
      contextValue !== undefined && JSON.stringify(contextValue) !== JSON.stringify(base[key]);
    change(Object.fromEntries(Object.entries(chosen ?? {}).filter(isChanged)));
    discardDrafts(draftKey);
    close();
  };
  return (
    <Sheet title="Context of the next runs" side close={close}>
      <p class="faint">
        It starts from the assistant's context. Keys that you change are sent with the next runs of this tab. Keys of
        the assistant cannot be removed.
      </p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          applyContext(value);
        }}
      >
        <DraftScope.Provider value={draftKey}>
          <Editor schema={schema} label="Context" value={value} change={(next) => saveDraft(draftKey, next ?? {})} />
        </DraftScope.Provider>
        <div class="buttons">
          <button type="submit" class="primary">
            Use it
          </button>
          <button type="button" onClick={() => applyContext({})}>
            Clear
          </button>
        </div>
      </form>
    </Sheet>
  );
}

interface TitleProps {
  readonly title: string;
  readonly change: (title: string) => void;
}

/**
 * Shows the title as a button that turns it into a field. Enter and leaving the field call `change` with the trimmed
 * text, unless it is empty or the same; Escape keeps the title.
 */
function Title({ title, change }: TitleProps): VNode {
  const [isEditing, setEditing] = useState(false);
  if (!isEditing) {
    return (
      <button type="button" class="title-button" title="Rename" onClick={() => setEditing(true)}>
        {title}
      </button>
    );
  }
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        const text = String(new FormData(event.currentTarget).get("title") ?? "").trim();
        if (text && text !== title) change(text);
        setEditing(false);
      }}
    >
      <input
        name="title"
        aria-label="Title"
        defaultValue={title}
        ref={focusOnMount}
        onBlur={(event) => event.currentTarget.form?.requestSubmit()}
        onKeyDown={(event) => {
          if (event.key !== "Escape") return;
          event.stopPropagation();
          // The field submits what it has when it goes.
          event.currentTarget.value = title;
          setEditing(false);
        }}
      />
    </form>
  );
}

const TABS = [
  ["chat", "Chat"],
  ["state", "State"],
  ["runs", "Runs"],
] as const;

/**
 * Returns the status to show: `suspended` for a running thread whose run waits, `running`, else `waiting` with
 * interrupts, else `error`, else `idle`.
 */
const toStatus = ({ phase, interrupts, error, waiting_for }: ChatState): string =>
  phase === "running"
    ? waiting_for
      ? "suspended"
      : "running"
    : interrupts.length > 0
      ? "waiting"
      : error
        ? "error"
        : "idle";

/**
 * Returns the title in the metadata of a thread, else the first 120 characters of its first message if that is a text,
 * else the end of its id.
 */
function getTitle({ metadata, messages }: ChatState, thread_id: string): string {
  if (typeof metadata["title"] === "string") return metadata["title"];
  const content = messages?.[0]?.content;
  const text = typeof content === "string" ? content : "";
  return text.slice(0, 120) || shortId(thread_id);
}

type AssistantChoice = ReturnType<typeof useAssistantChoice>;

/**
 * Returns the assistant that the address names, else that of the thread, with its schemas and context. The first one in
 * the list if there is no such assistant; `assistant_id` is null while the list is not loaded or empty.
 */
function useAssistantChoice(state: ChatState | null) {
  const assistants = useAssistants();
  const chosen = pageAddress.value.query.get("with") ?? pageAddress.value.query.get("assistant");
  const threadAssistant = (state?.metadata["assistant_id"] ?? state?.metadata["graph_id"]) as string | undefined;
  const assistant = assistants.data?.find(({ assistant_id }) => assistant_id === (chosen || threadAssistant));
  const assistant_id = assistant?.assistant_id ?? assistants.data?.[0]?.assistant_id ?? null;
  const schemas = useSchemas(assistant_id);
  const isLoaded =
    assistant_id === null ? !assistants.loading : schemas.data !== undefined || schemas.error !== undefined;
  return {
    assistant_id,
    isLoaded,
    schemas: schemas.data,
    base: (assistant ?? assistants.data?.[0])?.context as Context,
  };
}

/**
 * Shows a select that puts the assistant into the address, a button that opens the context, marked if it was changed,
 * and one that shows the state as raw JSON or not.
 */
function AssistantBar(props: {
  readonly choice: AssistantChoice;
  readonly openContext: () => void;
  readonly hasContext: boolean;
}): VNode {
  const { assistant_id } = props.choice;
  const isRaw = pageAddress.value.query.has("raw");
  return (
    <div class="assistant-bar">
      <span class="faint" aria-hidden="true">
        Assistant
      </span>
      <AssistantSelect value={assistant_id ?? ""} change={(assistant) => setQuery({ with: assistant })} />
      <button type="button" class="quiet" onClick={props.openContext}>
        Context{props.hasContext ? " ●" : ""}
      </button>
      <button type="button" class="quiet" aria-pressed={isRaw} onClick={() => setQuery({ raw: isRaw ? null : 1 })}>
        Raw JSON
      </button>
    </div>
  );
}

interface EditedContext {
  readonly value: Context;
  readonly open: () => void;
  /** The sheet; null while it is closed. */
  readonly sheet: VNode | null;
}

const NO_CONTEXT: Context = {};

/** Returns the context for the next runs of a thread, and a side sheet that edits it. The value survives the creation of a new thread. */
function useContextSheet(thread_id: string, choice: AssistantChoice): EditedContext {
  const draftKey = `context ${thread_id}`;
  const value = readDraft(draftKey, NO_CONTEXT);
  const [isOpen, setOpen] = useState(false);
  const sheet = isOpen ? (
    <ContextSheet
      draftKey={`${draftKey} sheet`}
      schema={(choice.schemas?.context_schema ?? null) as Schema | null}
      base={choice.base ?? NO_CONTEXT}
      context={value}
      change={(context) => saveDraft(draftKey, Object.keys(context).length > 0 ? context : undefined)}
      close={() => setOpen(false)}
    />
  ) : null;
  return { value, open: () => setOpen(true), sheet };
}

interface AssistantChatProps {
  readonly thread_id: string;
  readonly source: ChatSource;
  readonly choice: AssistantChoice;
  readonly context: EditedContext;
}

/**
 * Shows the bar that selects the assistant and its context, and below it the chat of the thread with that assistant.
 */
function AssistantChat({ thread_id, source, choice, context }: AssistantChatProps): VNode {
  return (
    <>
      <AssistantBar choice={choice} hasContext={Object.keys(context.value).length > 0} openContext={context.open} />
      <Chat
        key={thread_id}
        thread_id={thread_id}
        source={source}
        assistant_id={choice.assistant_id}
        isAssistantLoaded={choice.isLoaded}
        schema={(choice.schemas?.input_schema ?? null) as Schema | null}
        context={context.value}
      />
    </>
  );
}

/**
 * Shows a button that opens and closes a menu of the children. The menu is closed at first, and closes on any click and on
 * Escape.
 */
function ActionMenu({ children }: { readonly children: ComponentChildren }): VNode {
  const [isOpen, setOpen] = useState(false);
  const close = (): void => setOpen(false);
  useDismiss(isOpen, close);
  return (
    <details class="menu" open={isOpen}>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: a summary is a button */}
      <summary
        aria-label="More actions"
        onClick={(event) => {
          // The page opens it, so that its keys listen from then on.
          event.preventDefault();
          setOpen(!isOpen);
        }}
      >
        ⋯
      </summary>
      <div>{children}</div>
    </details>
  );
}

/**
 * Shows a thread, with its chat, states or runs as the address says, and a menu to copy or delete it; a text if it does not
 * exist. Keeps its source of events open while it is shown. The key D asks whether to delete it.
 */
function Thread({ thread_id }: { readonly thread_id: string }): VNode {
  const source = useMemo(() => getOrCreateSource(thread_id), [thread_id]);
  // Before the next timer: it may close a source that another view has just let go.
  useLayoutEffect(() => holdSource(thread_id), [thread_id]);
  const state = source.state.value;
  const choice = useAssistantChoice(state);
  const context = useContextSheet(thread_id, choice);
  const tab = pageAddress.value.query.get("tab") ?? "chat";
  const [isDeleting, setDeleting] = useState(false);
  useKey("D", "Delete the thread", () => setDeleting(true), { when: state.phase !== "missing" });
  if (state.phase === "missing") {
    return (
      <>
        <DetailHead title={shortId(thread_id)} />
        <Empty title="This thread does not exist">
          <p class="faint">It was deleted, perhaps in another tab, or it belongs to somebody else.</p>
          <a class="button" href={toListHref(["threads"])}>
            All threads
          </a>
        </Empty>
      </>
    );
  }
  return (
    <>
      <DetailHead
        title={
          <Title
            title={getTitle(state, thread_id)}
            change={(title) => renameThread(thread_id, title, () => source.reload())}
          />
        }
      >
        <Id value={thread_id} label="thread id" />
        <Status value={toStatus(state)} />
        <ActionMenu>
          <button type="button" onClick={() => void copy(location.href, "Copied link")}>
            Copy link
          </button>
          <button type="button" onClick={() => copyThread(thread_id)}>
            Copy thread
          </button>
          <button type="button" class="danger" onClick={() => removeThread(thread_id)}>
            Delete
          </button>
        </ActionMenu>
      </DetailHead>
      <Tabs
        items={TABS}
        current={tab}
        toHref={(id) => toCurrentHref({ tab: id === "chat" ? null : id, checkpoint: null, against: null })}
      />
      {tab === "state" ? (
        <LazyPart
          key="state"
          load={async () => (await import("../state/state.tsx")).StateTab}
          with={{ thread_id, source, assistant_id: choice.assistant_id }}
        />
      ) : tab === "runs" ? (
        <LazyPart key="runs" load={async () => (await import("../runs/table.tsx")).ThreadRuns} with={{ thread_id }} />
      ) : (
        <AssistantChat thread_id={thread_id} source={source} choice={choice} context={context} />
      )}
      {context.sheet}
      {isDeleting ? (
        <Sheet title="Delete this thread?" close={() => setDeleting(false)}>
          <div class="buttons">
            <button type="button" class="danger" onClick={() => removeThread(thread_id)}>
              Delete
            </button>
            <button type="button" onClick={() => setDeleting(false)}>
              Cancel
            </button>
          </div>
        </Sheet>
      ) : null}
    </>
  );
}

const NEW_THREAD_DRAFT = "new thread";

/**
 * Shows the chat of a thread that the server creates with its first turn. Its id is a draft until then, so that a reload finds
 * what was typed. The first turn discards that draft and opens the thread in place of this form.
 */
function NewThread(): VNode {
  // The same one until it exists, so that a reload finds what was typed.
  const thread_id = useMemo(() => readDraft(NEW_THREAD_DRAFT, createId()), []);
  useEffect(() => saveDraft(NEW_THREAD_DRAFT, thread_id), []);
  const choice = useAssistantChoice(null);
  const context = useContextSheet(thread_id, choice);
  const source = useMemo<ChatSource>(() => {
    const threadSource = getOrCreateSource(thread_id, true);
    return {
      state: threadSource.state,
      stop: () => threadSource.stop(),
      show: (checkpoint_id) => threadSource.show(checkpoint_id),
      reload: () => threadSource.reload(),
      close: () => threadSource.close(),
      answer: (answers) => threadSource.answer(answers),
      /** Starts the first run, discards the draft and opens the thread, in place of the form in the history. */
      async send(turn) {
        await threadSource.send(turn);
        discardDrafts(NEW_THREAD_DRAFT);
        const { query } = pageAddress.value;
        go(toListHref(["threads", thread_id], { with: query.get("with") ?? query.get("assistant") }), {
          replace: true,
        });
      },
    };
  }, [thread_id]);
  useLayoutEffect(() => holdSource(thread_id), [thread_id]);
  return (
    <>
      <DetailHead title="New thread" />
      <AssistantChat thread_id={thread_id} source={source} choice={choice} context={context} />
      {context.sheet}
    </>
  );
}

/** Shows the list of threads and beside it the thread that the address names, or the form of a new one. */
export default function Threads(): VNode {
  const [thread_id] = pageAddress.value.ids;
  return (
    <Panes
      name="threads"
      list={<ThreadList current={thread_id} />}
      detail={
        thread_id === undefined ? null : thread_id === "new" ? (
          <NewThread />
        ) : (
          <Thread key={thread_id} thread_id={thread_id} />
        )
      }
      hint={
        <Empty title="Choose a thread">
          <p class="faint">
            Or <a href={toListHref(["threads", "new"])}>start one</a>.
          </p>
        </Empty>
      }
    />
  );
}
