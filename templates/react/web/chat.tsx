import { useStream } from "@langchain/react";
import { type FormEvent, useState } from "react";

/** The thread is part of the address, so that a reload shows it again. */
const threadOfPage = (): string | null => new URLSearchParams(location.search).get("thread");

function keepThread(thread: string): void {
  history.replaceState(null, "", `?thread=${encodeURIComponent(thread)}`);
}

export function Chat() {
  const [text, setText] = useState("");
  // Vite passes /api on to the server: see vite.config.ts.
  const stream = useStream({
    assistantId: "agent",
    apiUrl: new URL("/api", location.href).href,
    threadId: threadOfPage(),
    onThreadId: keepThread,
  });

  function send(event: FormEvent): void {
    event.preventDefault();
    const content = text.trim();
    if (content === "" || stream.isLoading) return;
    setText("");
    void stream.submit({ messages: [{ type: "human", content }] });
  }

  return (
    <main>
      <h1>__NAME__</h1>
      <ol aria-live="polite">
        {stream.messages.map((message, index) => (
          <li key={message.id ?? index} className={message.type}>
            {message.text}
          </li>
        ))}
      </ol>
      {stream.error ? <p role="alert">{String(stream.error)}</p> : null}
      <form onSubmit={send}>
        <input
          aria-label="Message"
          placeholder="Say something"
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
        {stream.isLoading ? (
          <button type="button" onClick={() => void stream.stop()}>
            Stop
          </button>
        ) : (
          <button type="submit">Send</button>
        )}
      </form>
    </main>
  );
}
