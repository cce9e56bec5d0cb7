/** A chat page on `useStream` of @langchain/react. The address names the assistant, the thread and the transport. */
import {
  type StreamSubmitOptions,
  type SubgraphDiscoverySnapshot,
  useMessageMetadata,
  useMessages,
  useStream,
  useSubmissionQueue,
} from "@langchain/react";
import { createElement as h, type ReactNode, useState } from "react";
import { createRoot } from "react-dom/client";

interface State {
  messages: { readonly id?: string; readonly type: string; readonly text: string }[];
}
type Stream = ReturnType<typeof useStream<State>>;
type Shown = Stream["messages"][number];

const address = new URL(location.href);

function remember(name: string, value: string): void {
  address.searchParams.set(name, value);
  history.replaceState(null, "", address);
}

const button = (label: string, id: string | { readonly className: string }, onClick: () => unknown): ReactNode =>
  h("button", { type: "button", ...(typeof id === "string" ? { id } : id), onClick: () => void onClick() }, label);

/** Finds the checkpoint before a message in the history of the thread. */
async function checkpointBefore(stream: Stream, id: string | undefined): Promise<string | undefined> {
  const history = await stream.client.threads.getHistory<State>(stream.threadId ?? "");
  const first = history.findLast(({ values }) => values.messages?.some((message) => message.id === id));
  return first?.parent_checkpoint?.checkpoint_id ?? undefined;
}

interface LineProps {
  readonly stream: Stream;
  readonly message: Shown;
  send(forkFrom: string | undefined, again: boolean): Promise<void>;
}

function Line({ stream, message, send }: LineProps): ReactNode {
  const parent = useMessageMetadata(stream, message.id)?.parentCheckpointId;
  const fork = async (again: boolean): Promise<void> =>
    send(address.searchParams.has("history") ? await checkpointBefore(stream, message.id) : parent, again);
  return h(
    "li",
    { className: message.type },
    h("span", { className: "text" }, message.text),
    message.type === "human" ? button("Edit", { className: "edit" }, () => fork(false)) : null,
    message.type === "ai" ? button("Again", { className: "again" }, () => fork(true)) : null,
  );
}

function Card({ stream, graph }: { readonly stream: Stream; readonly graph: SubgraphDiscoverySnapshot }): ReactNode {
  const messages = useMessages(stream, graph);
  const label = `${graph.namespace.map((segment) => segment.split(":")[0]).join(" > ")} ${graph.status}`;
  const lines = messages.map((message) =>
    h("p", { key: message.id, className: "inner" }, `${message.type}: ${message.text}`),
  );
  return h("section", { className: "card" }, h("h2", null, label), lines);
}

function Chat(): ReactNode {
  const [text, setText] = useState("");
  const [run, setRun] = useState("");
  const { searchParams } = address;
  const stream = useStream<State>({
    assistantId: searchParams.get("assistant") ?? "agent",
    apiUrl: searchParams.get("api") ?? `${address.origin}/agents`,
    threadId: searchParams.get("thread"),
    transport: searchParams.has("socket") ? "websocket" : "sse",
    onThreadId: (id) => remember("thread", id),
    onCreated: ({ runId }) => setRun(runId),
    // For the SDKs that have it.
    ...({ queue: searchParams.get("queue") ?? undefined } as object),
  });
  const queue = useSubmissionQueue(stream);
  const submit = (options: StreamSubmitOptions<State> = {}) =>
    stream.submit({ messages: [{ type: "human", content: text }] } as never, options);
  const send = (forkFrom: string | undefined, again: boolean) =>
    again ? stream.submit(null, { forkFrom }) : submit({ forkFrom });
  const strategy = searchParams.get("strategy") as "interrupt" | null;

  const cards = [...stream.subgraphs.values()].map((graph) => h(Card, { key: graph.id, stream, graph }));
  const questions = stream.interrupts.map((interrupt) =>
    h(
      "div",
      { key: interrupt.id, className: "interrupt" },
      JSON.stringify(interrupt.value),
      button("Yes", "yes", () => stream.respond("yes", { interruptId: interrupt.id as string })),
    ),
  );
  return h(
    "main",
    { className: stream.isThreadLoading ? "opening" : stream.isLoading ? "loading" : "idle" },
    h(
      "ol",
      null,
      stream.messages.map((message, at) => h(Line, { key: message.id ?? at, stream, message, send })),
    ),
    questions,
    cards,
    h(
      "ul",
      null,
      queue.entries.map(({ id }) => h("li", { key: id, className: "queued" }, id)),
    ),
    stream.error ? h("p", { role: "alert" }, (stream.error as Error).message) : null,
    h("output", { id: "run" }, run),
    h("input", {
      id: "text",
      value: text,
      onChange: (event: { target: unknown }) => setText((event.target as HTMLInputElement).value),
    }),
    button("Send", "send", () => submit(strategy ? { multitaskStrategy: strategy } : {})),
    button("Queue", "queue", () => submit({ multitaskStrategy: "enqueue" })),
    button("Stop", "stop", () => stream.stop()),
  );
}

createRoot(document.body.appendChild(document.createElement("div"))).render(h(Chat));
