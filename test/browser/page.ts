/** A small chat page on `useStream`, as an application would have it. The address says which assistant, API and thread, and how it behaves. */
import { useStream } from "langgraph-sdk-2/react";
import { createElement as h, type ReactNode, useState } from "react";
import { createRoot } from "react-dom/client";

interface Message {
  readonly type: string;
  readonly id?: string;
  readonly content: unknown;
}

const address = new URL(location.href);

function remember(name: string, value: string): void {
  address.searchParams.set(name, value);
  history.replaceState(null, "", address);
}

const button = (
  label: string,
  about: { readonly key?: string; readonly id?: string; readonly className?: string; readonly onClick: () => void },
): ReactNode => h("button", { type: "button", ...about }, label);

function Chat(): ReactNode {
  const [text, setText] = useState("");
  const [threadId, setThreadId] = useState(address.searchParams.get("thread"));
  const [run, setRun] = useState("");
  const stream = useStream<{ messages: Message[] }>({
    apiUrl: address.searchParams.get("api") ?? `${address.origin}/agents`,
    assistantId: address.searchParams.get("assistant") ?? "agent",
    threadId,
    // With its history, the hook sends the last seen state as the one to continue from.
    fetchStateHistory: !address.searchParams.has("strategy"),
    reconnectOnMount: address.searchParams.has("reconnect"),
    onThreadId(id) {
      remember("thread", id);
      setThreadId(id);
    },
    onCreated: ({ run_id }) => setRun(run_id),
  });
  const input = { messages: [{ type: "human", content: text }] };
  const strategy = address.searchParams.get("strategy");
  const options = strategy === null ? {} : { multitaskStrategy: strategy as "rollback" };

  const line = (message: Message, at: number): ReactNode => {
    const about = stream.getMessagesMetadata(message as never, at);
    const branches = about?.branchOptions ?? [];
    const checkpoint = about?.firstSeenState?.parent_checkpoint;
    return h(
      "li",
      { key: message.id ?? at, className: message.type },
      h("span", { className: "text" }, String(message.content)),
      message.type === "human" && checkpoint
        ? button("Edit", { className: "edit", onClick: () => void stream.submit(input, { checkpoint }) })
        : null,
      branches.map((branch, n) =>
        button(`Version ${n + 1}`, { key: branch, className: "branch", onClick: () => stream.setBranch(branch) }),
      ),
    );
  };
  const { interrupt } = stream;
  return h(
    "main",
    { className: stream.isLoading || stream.isThreadLoading ? "loading" : "idle" },
    h("ol", null, (stream.messages as Message[]).map(line)),
    interrupt
      ? h(
          "div",
          { id: "interrupt" },
          (interrupt as { value?: { question?: string } }).value?.question,
          button("Yes", { id: "yes", onClick: () => void stream.submit(undefined, { command: { resume: "yes" } }) }),
        )
      : null,
    stream.error
      ? h("p", { role: "alert" }, String((stream.error as { message?: unknown }).message ?? stream.error))
      : null,
    h("output", { id: "run" }, run),
    h("input", {
      id: "text",
      value: text,
      onChange: (event: { target: unknown }) => setText((event.target as HTMLInputElement).value),
    }),
    button("Send", { id: "send", onClick: () => void stream.submit(input, options) }),
    button("Stop", { id: "stop", onClick: () => void stream.stop() }),
  );
}

createRoot(document.body.appendChild(document.createElement("div"))).render(h(Chat));
