// An agent that asks an agent of another server: npm run build && npx bun examples/a2a.ts. See docs/guides/a2a.md.
import { SendMessageRequest, type Task } from "@a2a-js/sdk";
import { ClientFactory } from "@a2a-js/sdk/client";
import { createApp } from "greenroom/app";
import { serve } from "greenroom/node";

// The other server.
const travel = await createApp({
  database: ":memory:",
  agents: {
    guide: ({ command, interrupt }) =>
      command?.resume === undefined ? interrupt("Which city?") : `Three walks in ${command.resume}`,
  },
});
const server = await serve(travel.fetch, { port: 0, hostname: "127.0.0.1" });
const guide = await new ClientFactory().createFromUrl(`${server.url}/a2a/guide/`);

async function ask(text: string, ids: object = {}): Promise<Task> {
  const message = { messageId: crypto.randomUUID(), role: "ROLE_USER", parts: [{ text }], ...ids };
  const answer = await guide.sendMessage(SendMessageRequest.fromJSON({ message }));
  if (!("artifacts" in answer)) throw new Error("The guide answered with a message, not with a task");
  return answer;
}

const app = await createApp({
  database: ":memory:",
  agents: {
    async planner() {
      const { id: taskId, contextId } = await ask("Plan my weekend");
      const { artifacts } = await ask("Rome", { taskId, contextId });
      return `The guide says: ${artifacts[0]?.parts[0]?.content?.value}`;
    },
  },
});
const { messages } = await app.service.runs.run("planner", { messages: "Hi" });
console.log(messages?.at(-1)?.content);
await app.stop();
await server.close();
await travel.stop();
