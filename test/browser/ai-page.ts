/** A page on `useChat` that sends files and edits the first message, which the template does not. */
import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, type UIMessage } from "ai";
import { createElement as h, type ReactNode, useRef } from "react";
import { createRoot } from "react-dom/client";

const api = "/api/ai/agent/chat";
const id = "page";
const transport = new DefaultChatTransport({ api });

function Page({ initial }: { readonly initial: UIMessage[] }): ReactNode {
  const { messages, sendMessage, status } = useChat({ id, messages: initial, transport, resume: true });
  const text = useRef<HTMLInputElement>(null);
  const files = useRef<HTMLInputElement>(null);
  const textNow = (): string => text.current?.value ?? "";
  const send = (): void => {
    const chosen = files.current?.files;
    void sendMessage({ text: textNow(), ...(chosen?.length ? { files: chosen } : {}) });
  };
  const edit = (): void => void sendMessage({ text: textNow(), messageId: messages[0]?.id as string });
  const lines = messages.map((message) =>
    h(
      "li",
      { key: message.id },
      message.parts.map((part) => (part.type === "text" ? part.text : part.type === "file" ? `[${part.url}]` : "")),
    ),
  );
  return h(
    "main",
    { className: status === "ready" ? "idle" : status },
    h("ol", null, lines),
    h("input", { "aria-label": "Message", ref: text }),
    h("input", { "aria-label": "Files", type: "file", ref: files }),
    h("button", { type: "button", onClick: send }, "Send"),
    h("button", { type: "button", onClick: edit }, "Edit"),
  );
}

const response = await fetch(`${api}/${id}`);
const initial = response.status === 200 ? ((await response.json()) as { messages: UIMessage[] }).messages : [];
createRoot(document.getElementById("root") as HTMLElement).render(h(Page, { initial }));
