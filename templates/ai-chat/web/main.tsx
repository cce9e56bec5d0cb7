import type { UIMessage } from "ai";
import { createRoot } from "react-dom/client";
import { api, Chat } from "./chat.tsx";

/** The chat is part of the address, so that a reload shows it again. */
function chatOfPage(): string {
  const known = new URLSearchParams(location.search).get("chat");
  const id = known ?? crypto.randomUUID();
  if (known === null) history.replaceState(null, "", `?chat=${id}`);
  return id;
}

const id = chatOfPage();
const response = await fetch(`${api}/${id}`);
// 204: the chat has not begun.
const initial = response.status === 200 ? ((await response.json()) as { messages: UIMessage[] }).messages : [];
createRoot(document.getElementById("root") as HTMLElement).render(<Chat id={id} initial={initial} />);
