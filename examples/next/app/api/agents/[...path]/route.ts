// Agents in a Next.js application: this file and next.config.ts are all of it.
import { setTimeout as sleep } from "node:timers/promises";
import { createService, fromFunctions, type Service } from "greenroom";
import { nodeSqlite } from "greenroom/node-sqlite";
import { createHandler, type Handler } from "greenroom/server";

// The service of the process. In development a change loads this module again, and its service replaces the one before.
declare global {
  var agentService: Promise<Service> | undefined;
}
let handler: Promise<Handler> | undefined;

async function open(before: Promise<Service> | undefined): Promise<Service> {
  if (!before) process.once("SIGTERM", async () => (await globalThis.agentService)?.stop());
  await (await before?.catch(() => undefined))?.stop(0);
  return await createService({
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
}

// The first request opens it: a build loads this module too.
export async function GET(request: Request): Promise<Response> {
  if (!handler) {
    globalThis.agentService = open(globalThis.agentService);
    handler = globalThis.agentService.then((service) => createHandler(service, { prefix: "/api/agents" }));
  }
  return (await handler)(request);
}

export { GET as DELETE, GET as HEAD, GET as OPTIONS, GET as PATCH, GET as POST, GET as PUT };
