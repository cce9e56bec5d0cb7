import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses, type UIMessage } from "ai";
import { resumingFetch } from "greenroom/ai-client";
import { type FormEvent, useState } from "react";

// Vite passes /api on to the server: see vite.config.ts.
export const api = "/api/ai/agent/chat";
// Goes on by itself when the connection breaks, as at a deploy.
const transport = new DefaultChatTransport({ api, fetch: resumingFetch() });

type Part = UIMessage["parts"][number];

function Shown({ part, answer }: { part: Part; answer: (id: string, approved: boolean) => void }) {
  if (part.type === "text") return <span>{part.text}</span>;
  if (!("toolCallId" in part)) return null;
  const name = part.type === "dynamic-tool" ? part.toolName : part.type.replace(/^tool-/, "");
  if (part.state !== "approval-requested") return <small>{`${name}: ${part.state} `}</small>;
  const { id } = part.approval;
  return (
    <p>
      {`${name} ${JSON.stringify(part.input)} `}
      <button type="button" onClick={() => answer(id, true)}>
        Approve
      </button>
      <button type="button" onClick={() => answer(id, false)}>
        Reject
      </button>
    </p>
  );
}

/** `initial`: the messages that the chat has on the server. */
export function Chat({ id, initial }: { id: string; initial: UIMessage[] }) {
  const [text, setText] = useState("");
  const { messages, sendMessage, regenerate, stop, status, error, addToolApprovalResponse } = useChat({
    id,
    messages: initial,
    transport,
    resume: true,
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  const busy = status === "submitted" || status === "streaming";

  function send(event: FormEvent): void {
    event.preventDefault();
    if (text.trim() === "" || busy) return;
    setText("");
    void sendMessage({ text: text.trim() });
  }

  async function cancel(): Promise<void> {
    // The server cannot tell a stop from a reload, so it is told.
    await fetch(`${api}/${id}/stop`, { method: "POST" });
    await stop();
  }

  return (
    <main className={busy ? "busy" : "idle"}>
      <h1>__NAME__</h1>
      <ol aria-live="polite">
        {messages.map((message) => (
          <li key={message.id} className={message.role}>
            {message.parts.map((part, index) => (
              <Shown
                // biome-ignore lint/suspicious/noArrayIndexKey: parts have no other key, and keep their places
                key={index}
                part={part}
                answer={(approval, approved) => void addToolApprovalResponse({ id: approval, approved })}
              />
            ))}
          </li>
        ))}
      </ol>
      {error ? <p role="alert">{error.message}</p> : null}
      <form onSubmit={send}>
        <input
          aria-label="Message"
          placeholder="Say something"
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
        {busy ? (
          <button type="button" onClick={() => void cancel()}>
            Stop
          </button>
        ) : (
          <button type="submit">Send</button>
        )}
        {busy || messages.length === 0 ? null : (
          <button type="button" onClick={() => void regenerate()}>
            Again
          </button>
        )}
      </form>
    </main>
  );
}
