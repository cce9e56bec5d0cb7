// An agent whose tool is an agent of another server: npm run build && npx bun examples/mcp.ts; on Deno npx deno run -A, on
// Node npx node. See docs/guides/mcp.md.
import { MultiServerMCPClient } from "@langchain/mcp-adapters";
import { createApp } from "greenroom/app";
import { serve } from "greenroom/node";

// The other server.
const library = await createApp({
  database: ":memory:",
  agents: { librarian: ({ messages }) => `Three books about ${messages.at(-1)?.content}` },
});
const server = await serve(library.fetch, { port: 0, hostname: "127.0.0.1" });

const client = new MultiServerMCPClient({ mcpServers: { library: { transport: "http", url: `${server.url}/mcp` } } });
// An agent of LangChain takes these tools as they are: createAgent({ model, tools }).
const [librarian] = await client.getTools();

const app = await createApp({
  database: ":memory:",
  agents: {
    async writer({ messages }) {
      const found = await librarian?.invoke({ message: messages.at(-1)?.content });
      return `The other agent says: ${found.text}`;
    },
  },
});
const { messages } = await app.service.runs.run("writer", { messages: "cooking" });
console.log(messages?.at(-1)?.content);

const { items } = await library.service.runs.search();
console.log(
  "Calls:",
  items.map(({ metadata, status }) => `${metadata.mcp_tool} by ${metadata.created_by}: ${status}`),
);
await client.close();
await app.stop();
await server.close();
await library.stop();
