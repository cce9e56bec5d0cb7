import { createRoot } from "react-dom/client";
import { Chat } from "./chat.tsx";

const root = document.getElementById("root");
if (!root) throw new Error('index.html has no element with the id "root"');
createRoot(root).render(<Chat />);
