/** The inbox: every thread that waits for a person, oldest first. */
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { client } from "../../api/client.ts";
import { respond } from "../../api/events.ts";
import type { InboxThread } from "../../api/types.ts";
import { notify } from "../../frame/notices.tsx";
import { go, pageAddress, setQuery, toHref, toListHref } from "../../frame/router.ts";
import { AssistantSelect } from "../../parts/assistant-select.tsx";
import { Empty, formatTime, Id, Ready, Skeleton, shortId, Time } from "../../parts/components.tsx";
import { findPrompt, Interrupts } from "../../parts/interrupt.tsx";
import { List } from "../../parts/list.tsx";
import { DetailHead, Head, Panes } from "../../parts/panes.tsx";
import { formatAssistantName, useAssistants } from "../../store/assistants.ts";
import { usePages } from "../../store/pages.ts";
import { refresh, useResource } from "../../store/resource.ts";
import { Bubble } from "../chat/message.tsx";
import { findMessages, separateResults } from "../chat/messages.ts";

/**
 * Shows the last four messages of the thread, without results of tools. Shows nothing while they load and if there are
 * none.
 */
function MessagesBefore({ thread_id }: { readonly thread_id: string }): VNode | null {
  const state = useResource(`inbox/state/${thread_id}`, (signal) =>
    client.threads.getState(thread_id, undefined, { select: ["values.messages"] as never, signal }),
  );
  const { withoutResults, results } = separateResults(findMessages(state.data?.values)?.slice(-4) ?? []);
  if (withoutResults.length === 0) return null;
  return (
    <div class="before">
      <h3>Before the question</h3>
      {withoutResults.map((message, index) => (
        <Bubble key={message.id ?? index} message={message} results={results} />
      ))}
    </div>
  );
}

interface WaitingThreadProps {
  readonly thread: InboxThread;
  readonly nextThreadId: string | undefined;
  readonly onAnswered: (thread_id: string) => void;
}

/** Shows since when a thread waits, its interrupts with the forms to answer them, and the messages before them. */
function WaitingThread({ thread, nextThreadId, onAnswered }: WaitingThreadProps): VNode {
  const { thread_id, interrupts } = thread;
  /**
   * Answers the interrupts, calls `onAnswered` and opens the next waiting thread, without one the inbox. Reads the inbox again,
   * also if the answer is refused; then it rejects and opens nothing.
   */
  const answer = async (answers: Readonly<Record<string, unknown>>): Promise<void> => {
    try {
      await respond(thread_id, answers);
    } finally {
      void refresh("inbox");
    }
    notify("Answered");
    onAnswered(thread_id);
    go(toListHref(nextThreadId === undefined ? ["inbox"] : ["inbox", nextThreadId]), { replace: true });
  };
  return (
    <div class="scroll">
      <p class="faint">
        Waiting since {formatTime(thread.since)} (<Time at={thread.since} />) ·{" "}
        <a href={toHref(["threads", thread_id])}>open the thread</a> · <Id value={thread_id} label="thread id" />
      </p>
      <Interrupts
        interrupts={interrupts.map((interrupt) => ({
          ...interrupt,
          interrupt_id: interrupt.interrupt_id ?? interrupt.task_id,
        }))}
        busy={false}
        answer={answer}
      />
      <MessagesBefore thread_id={thread_id} />
    </div>
  );
}

const getRowKey = ({ thread_id, since }: InboxThread): string => `${thread_id}/${since}`;

/**
 * Shows the threads that wait for answers, longest first, read every four seconds, and beside them the one that the address
 * names. Those answered here disappear at once; for one that waits no longer, shows a text with a link to the first one.
 */
export default function Inbox(): VNode {
  const assistants = useAssistants();
  const assistant_id = pageAddress.value.query.get("assistant") ?? "";
  const [answeredKeys, setAnsweredKeys] = useState<ReadonlySet<string>>(new Set());
  const inbox = usePages<InboxThread>({
    ...{ path: "inbox", query: { assistant_id }, pollIntervalMs: 4000 },
    getId: getRowKey,
  });
  const items = inbox.items.filter((thread) => !answeredKeys.has(getRowKey(thread)));
  const [thread_id] = pageAddress.value.ids;
  const selectedIndex = items.findIndex((thread) => thread.thread_id === thread_id);
  const selected = items[selectedIndex];
  const nextThreadId = items[selectedIndex + 1] ?? items.find((_, index) => index !== selectedIndex);
  return (
    <Panes
      name="inbox"
      list={
        <>
          <Head title="Inbox" />
          <div class="filters">
            <AssistantSelect any value={assistant_id} change={(assistant) => setQuery({ assistant })} />
          </div>
          <Ready of={inbox}>
            {() =>
              items.length === 0 ? (
                <Empty title="Nothing waits for you">
                  <p class="faint">Interrupts of all threads appear here.</p>
                </Empty>
              ) : (
                <List
                  label="Waiting threads"
                  items={items}
                  rowHeight={56}
                  getKey={(thread) => thread.thread_id}
                  toHref={(thread) => toListHref(["inbox", thread.thread_id])}
                  current={thread_id}
                  loadMore={inbox.loadMore}
                  row={(thread) => (
                    <>
                      <span class="status waiting">
                        <span class="sign" aria-hidden="true">
                          ◐
                        </span>
                      </span>
                      <span class="text">
                        <span>
                          {findPrompt(thread.interrupts[0]?.value) ?? thread.title ?? shortId(thread.thread_id)}
                        </span>
                        <span class="faint">
                          {formatAssistantName(assistants.data, thread.assistant_id)} ·{" "}
                          {thread.interrupts[0]?.node ?? "subgraph"}
                          {thread.interrupts.length > 1 ? ` · ${thread.interrupts.length} questions` : ""}
                          {thread.continues_at ? ` · sleeps until ${formatTime(thread.continues_at)}` : ""}
                        </span>
                      </span>
                      <Time at={thread.since} />
                    </>
                  )}
                />
              )
            }
          </Ready>
        </>
      }
      detail={
        thread_id === undefined ? null : (
          <>
            <DetailHead title={selected?.title ?? shortId(thread_id)} />
            {selected ? (
              <WaitingThread
                key={getRowKey(selected)}
                thread={selected}
                nextThreadId={nextThreadId?.thread_id}
                onAnswered={() => setAnsweredKeys(new Set([...answeredKeys, getRowKey(selected)]))}
              />
            ) : inbox.data ? (
              <Empty title="It is not waiting any more">
                <p class="faint">It was answered or stopped elsewhere.</p>
                {items[0] ? (
                  <a class="button primary" href={toListHref(["inbox", items[0].thread_id])}>
                    Next
                  </a>
                ) : null}
              </Empty>
            ) : (
              <Skeleton />
            )}
          </>
        )
      }
      hint={
        <Empty title={items.length > 0 ? "Choose what to answer" : "All answered"}>
          <p class="faint">The oldest is at the top.</p>
        </Empty>
      }
    />
  );
}
