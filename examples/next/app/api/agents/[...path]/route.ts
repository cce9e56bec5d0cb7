// Agents in a Next.js application: this file and next.config.ts are all of it.
import { setTimeout as sleep } from "node:timers/promises";
import { createService, fromFunctions } from "greenroom";
import { nodeSqlite } from "greenroom/node-sqlite";
import { createHandler, type Handler } from "greenroom/server";

async function open(): Promise<Handler> {
  const service = await createService({
    storage: nodeSqlite(process.env.AGENTS_DB ?? "agents.db"),
    executor: fromFunctions({
      async *counter({ messages, signal }) {
        for (let n = 1; n <= Number(messages.at(-1)?.content); n++) {
          yield `${n} `;
          await sleep(20, undefined, { signal });
        }
      },
    }),
  });
  process.once("SIGTERM", () => void service.stop());
  return createHandler(service, { prefix: "/api/agents" });
}

// One for the process, opened by the first request: a build loads this module too, and a change in development loads it again.
const process_wide = globalThis as { agents?: Promise<Handler> };

async function answer(request: Request): Promise<Response> {
  process_wide.agents ??= open();
  return (await process_wide.agents)(request);
}

export {
  answer as DELETE,
  answer as GET,
  answer as HEAD,
  answer as OPTIONS,
  answer as PATCH,
  answer as POST,
  answer as PUT,
};
