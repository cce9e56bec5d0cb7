/** The list of threads with its filters. */
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { ThreadSummary } from "../../api/types.ts";
import { useKey } from "../../frame/keyboard.ts";
import { deletedIds } from "../../frame/notices.tsx";
import { pageAddress, setQuery, toListHref } from "../../frame/router.ts";
import { AssistantSelect } from "../../parts/assistant-select.tsx";
import { Empty, formatWait, Ready, Status, shortId, Time } from "../../parts/components.tsx";
import { List } from "../../parts/list.tsx";
import { Head } from "../../parts/panes.tsx";
import { formatAssistantName, useAssistants } from "../../store/assistants.ts";
import { usePages } from "../../store/pages.ts";

interface Filter {
  readonly fields?: Readonly<Record<string, unknown>>;
  /** The text to search for if there are no fields. */
  readonly text: string;
}

/**
 * Parses `key = value` into a filter of the API, with an empty `text`; a value that is no JSON is a text. Without `=`,
 * returns the trimmed text to search for, without `fields`.
 */
export function parseFilter(typed: string): Filter {
  const [, key, value = ""] = /^\s*([^=\s]+)\s*=\s*(.*?)\s*$/.exec(typed) ?? [];
  if (!key) return { text: typed.trim() };
  try {
    return { fields: { [key]: JSON.parse(value) }, text: "" };
  } catch {
    return { fields: { [key]: value }, text: "" };
  }
}

/**
 * Shows an input that calls `change` 200 ms after the last letter. Escape empties it and leaves it. Key `/` moves into
 * it, unless `isMain` is false.
 */
export function SearchBox(props: {
  readonly label: string;
  readonly value: string;
  readonly change: (value: string) => void;
  readonly isMain?: boolean;
}): VNode {
  const { label, value, change, isMain = true } = props;
  const [text, setText] = useState(value);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (text === value) return;
    const timer = setTimeout(() => change(text), 200);
    return () => clearTimeout(timer);
  }, [text]);
  useEffect(() => setText(value), [value]);
  useKey("/", "Search", () => field.current?.focus(), { when: isMain });
  return (
    <input
      ref={field}
      type="search"
      aria-label={label}
      placeholder={isMain ? `${label}  /` : label}
      value={text}
      onInput={(event) => setText(event.currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        setText("");
        event.currentTarget.blur();
        event.stopPropagation();
      }}
    />
  );
}

/**
 * Shows the threads that match the filters of the address, read every four seconds, and the controls of these filters.
 * A press opens a thread. Shows a button to clear the filters or start a thread if there are none.
 */
export function ThreadList({ current }: { readonly current: string | undefined }): VNode {
  const { query } = pageAddress.value;
  const parsedFilter = parseFilter(query.get("metadata") ?? "");
  const title = query.get("text") ?? "";
  const filter = {
    text: title || parsedFilter.text,
    status: query.get("status") ?? "",
    assistant_id: query.get("assistant") ?? "",
    metadata: JSON.stringify(parsedFilter.fields),
  };
  const assistants = useAssistants();
  const threads = usePages<ThreadSummary>({
    ...{ path: "threads", query: filter, pollIntervalMs: 4000 },
    getId: ({ thread_id }) => thread_id,
  });
  // The server searches for one text.
  const matchesText = (thread: ThreadSummary): boolean =>
    !!thread.title?.toLowerCase().includes(parsedFilter.text.toLowerCase());
  const items = threads.items.filter(
    (thread) => !deletedIds.value.has(thread.thread_id) && (!parsedFilter.text || matchesText(thread)),
  );
  const isFiltered = Object.values(filter).some(Boolean);
  return (
    <>
      <Head title="Threads">
        <a class="button primary" href={toListHref(["threads", "new"])}>
          New
        </a>
      </Head>
      <div class="filters">
        <SearchBox label="Search titles" value={title} change={(text) => setQuery({ text })} />
        <select
          aria-label="Status"
          value={filter.status}
          onChange={(event) => setQuery({ status: event.currentTarget.value })}
        >
          <option value="">any status</option>
          <option value="idle">idle</option>
          <option value="busy">running</option>
          <option value="interrupted">interrupted</option>
          <option value="error">error</option>
        </select>
        <AssistantSelect any value={filter.assistant_id} change={(assistant) => setQuery({ assistant })} />
        <SearchBox
          label="key = value, or text"
          isMain={false}
          value={query.get("metadata") ?? ""}
          change={(metadata) => setQuery({ metadata })}
        />
      </div>
      <Ready of={threads}>
        {() =>
          items.length === 0 && !threads.loadMore ? (
            <Empty title={isFiltered ? "No thread matches" : "No threads yet"}>
              {isFiltered ? (
                <button
                  type="button"
                  onClick={() => setQuery({ text: null, status: null, assistant: null, metadata: null })}
                >
                  Clear the filters
                </button>
              ) : (
                <a class="button primary" href={toListHref(["threads", "new"])}>
                  Start one
                </a>
              )}
            </Empty>
          ) : (
            <List
              label="Threads"
              items={items}
              rowHeight={56}
              getKey={({ thread_id }) => thread_id}
              toHref={({ thread_id }) => toListHref(["threads", thread_id])}
              current={current}
              loadMore={threads.loadMore}
              row={(thread) => (
                <>
                  <Status value={thread.waiting ? "waiting" : thread.status} short />
                  <span class="text">
                    <span class="title">{thread.title ?? <span class="faint">{shortId(thread.thread_id)}</span>}</span>
                    <span class="faint">
                      {formatAssistantName(assistants.data, thread.assistant_id)}
                      {thread.waiting_for?.map((wait) => ` · ${formatWait(wait)}`)}
                    </span>
                  </span>
                  <Time at={thread.updated_at} />
                </>
              )}
            />
          )
        }
      </Ready>
    </>
  );
}
