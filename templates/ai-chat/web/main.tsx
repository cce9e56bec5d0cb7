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

/** Returns the messages of a chat; none if it has not begun. */
async function loadMessages(id: string): Promise<UIMessage[]> {
  const response = await fetch(`${api}/${id}`);
  if (response.status !== 200) return [];
  const chat: { readonly messages: UIMessage[] } = await response.json();
  return chat.messages;
}

const root = document.getElementById("root");
if (!root) throw new Error('index.html has no element with the id "root"');
const id = chatOfPage();
createRoot(root).render(<Chat id={id} initial={await loadMessages(id)} />);
