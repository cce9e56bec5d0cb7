import {
  CopilotChat,
  CopilotKit,
  useDefaultRenderTool,
  useFrontendTool,
  useInterrupt,
} from "@copilotkit/react-core/v2";
import { createRoot } from "react-dom/client";
import { z } from "zod";
import "@copilotkit/react-core/v2/styles.css";

// The thread is part of the address, so that a reload finds it again.
const threadId = new URLSearchParams(location.search).get("thread") ?? crypto.randomUUID();
history.replaceState(null, "", `?thread=${threadId}`);

function Chat() {
  useDefaultRenderTool();
  useFrontendTool({
    name: "paint",
    description: "Paints the page",
    parameters: z.object({ color: z.string() }),
    async handler({ color }) {
      document.body.style.background = color;
      return `The page is ${color}`;
    },
  });
  useInterrupt({
    render: ({ interrupt, resolve }) => (
      <p>
        {interrupt?.message}
        <button type="button" onClick={() => resolve({ approved: true })}>
          Yes
        </button>
        <button type="button" onClick={() => resolve({ approved: false })}>
          No
        </button>
      </p>
    ),
  });
  return <CopilotChat threadId={threadId} />;
}

const root = document.getElementById("root");
if (!root) throw new Error("The page has no element with the id root");
createRoot(root).render(
  <CopilotKit runtimeUrl="/copilotkit">
    <Chat />
  </CopilotKit>,
);
