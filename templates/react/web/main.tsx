import { createRoot } from "react-dom/client";
import { Chat } from "./chat.tsx";

createRoot(document.getElementById("root") as HTMLElement).render(<Chat />);
