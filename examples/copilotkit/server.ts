// The agent of the page, for any client of AG-UI. See docs/guides/ag-ui.md.
import { createApp } from "greenroom/app";
import { serve } from "greenroom/node";

const app = await createApp({
  database: "agents.db",
  agents: {
    async *support({ messages, command, interrupt }) {
      const answer = command?.resume;
      if (answer) yield answer.approved ? "Refunded." : "Not refunded.";
      else if (messages.at(-1)?.content === "Refund me") yield interrupt("Refund 30 euros?");
      else yield* ["You said: ", String(messages.at(-1)?.content)];
    },
  },
});
const server = await serve(app.fetch, { hostname: "127.0.0.1", port: 2024 });
console.log(`Listening on ${server.url}`);
