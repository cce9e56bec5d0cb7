/** The inbox: every thread that waits for a person, oldest first. */
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { client } from "../../api/client.ts";
import { respond } from "../../api/events.ts";
import type { InboxThread } from "../../api/types.ts";
import { notify } from "../../frame/notices.tsx";
import { go, hrefOf, listHref, place, setQuery } from "../../frame/router.ts";
import { AssistantSelect } from "../../parts/assistant-select.tsx";
import { Empty, exact, Id, Ready, Skeleton, shortId, Time } from "../../parts/basics.tsx";
import { Interrupts, questionOf } from "../../parts/interrupt.tsx";
import { List } from "../../parts/list.tsx";
import { DetailHead, Head, Panes } from "../../parts/panes.tsx";
import { nameOf, useAssistants } from "../../store/assistants.ts";
import { usePages } from "../../store/pages.ts";
import { refresh, useResource } from "../../store/resource.ts";
import { Bubble } from "../chat/message.tsx";
import { messagesOf, withResults } from "../chat/messages.ts";

/** The end of the conversation, to know what the question is about. */
function Before({ thread_id }: { readonly thread_id: string }): VNode | null {
  const state = useResource(`inbox/state/${thread_id}`, (signal) =>
    client.threads.getState(thread_id, undefined, { select: ["values.messages"] as never, signal }),
  );
  const { shown, results } = withResults(messagesOf(state.data?.values)?.slice(-4) ?? []);
  if (shown.length === 0) return null;
  return (
    <div class="before">
      <h3>Before the question</h3>
      {shown.map((message, index) => (
        <Bubble key={message.id ?? index} message={message} results={results} />
      ))}
    </div>
  );
}

interface WaitingProps {
  readonly item: InboxThread;
  readonly next: string | undefined;
  readonly answered: (thread_id: string) => void;
}

function Waiting({ item, next, answered }: WaitingProps): VNode {
  const { thread_id, interrupts } = item;
  const answer = async (answers: Readonly<Record<string, unknown>>): Promise<void> => {
    try {
      await respond(thread_id, answers);
    } finally {
      void refresh("inbox");
    }
    notify("Answered");
    answered(thread_id);
    go(listHref(next === undefined ? ["inbox"] : ["inbox", next]), { replace: true });
  };
  return (
    <div class="scroll">
      <p class="faint">
        Waiting since {exact(item.since)} (<Time at={item.since} />) ·{" "}
        <a href={hrefOf(["threads", thread_id])}>open the thread</a> · <Id value={thread_id} label="thread id" />
      </p>
      <Interrupts
        interrupts={interrupts.map((one) => ({ ...one, interrupt_id: one.interrupt_id ?? one.task_id }))}
        busy={false}
        answer={answer}
      />
      <Before thread_id={thread_id} />
    </div>
  );
}

const keyOf = ({ thread_id, since }: InboxThread): string => `${thread_id}/${since}`;

export default function Inbox(): VNode {
  const assistants = useAssistants();
  const assistant_id = place.value.query.get("assistant") ?? "";
  const [gone, setGone] = useState<ReadonlySet<string>>(new Set());
  const inbox = usePages<InboxThread>({
    ...{ path: "inbox", query: { assistant_id }, every: 4000 },
    idOf: keyOf,
  });
  const items = inbox.items.filter((item) => !gone.has(keyOf(item)));
  const [thread_id] = place.value.ids;
  const at = items.findIndex((one) => one.thread_id === thread_id);
  const item = items[at];
  const next = items[at + 1] ?? items.find((_, index) => index !== at);
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
                  keyOf={(one) => one.thread_id}
                  hrefOf={(one) => listHref(["inbox", one.thread_id])}
                  current={thread_id}
                  more={inbox.more}
                  row={(one) => (
                    <>
                      <span class="status waiting">
                        <span class="sign" aria-hidden="true">
                          ◐
                        </span>
                      </span>
                      <span class="text">
                        <span>{questionOf(one.interrupts[0]?.value) ?? one.title ?? shortId(one.thread_id)}</span>
                        <span class="faint">
                          {nameOf(assistants.data, one.assistant_id)} · {one.interrupts[0]?.node ?? "subgraph"}
                          {one.interrupts.length > 1 ? ` · ${one.interrupts.length} questions` : ""}
                          {one.continues_at ? ` · sleeps until ${exact(one.continues_at)}` : ""}
                        </span>
                      </span>
                      <Time at={one.since} />
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
            <DetailHead title={item?.title ?? shortId(thread_id)} />
            {item ? (
              <Waiting
                key={keyOf(item)}
                item={item}
                next={next?.thread_id}
                answered={() => setGone(new Set([...gone, keyOf(item)]))}
              />
            ) : inbox.data ? (
              <Empty title="It is not waiting any more">
                <p class="faint">It was answered or stopped elsewhere.</p>
                {items[0] ? (
                  <a class="button primary" href={listHref(["inbox", items[0].thread_id])}>
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
