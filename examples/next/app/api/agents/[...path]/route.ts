// Agents in a Next.js application: this file and next.config.ts are all of it.
import { setTimeout as sleep } from "node:timers/promises";
import { createService, fromFunctions, type Service } from "greenroom";
import { nodeSqlite } from "greenroom/node-sqlite";
import { createHandler, type Handler } from "greenroom/server";

interface Agents {
  readonly service: Service;
  readonly handler: Handler;
}

async function open(): Promise<Agents> {
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
  return { service, handler: createHandler(service, { prefix: "/api/agents" }) };
}

// One for the process, opened by the first request: a build loads this module too.
const process_wide = globalThis as { agents?: Promise<Agents>; from?: object };

// A change in development loads the module again: then this one takes the place of the one before.
const here = {};

async function replace(before: Promise<Agents> | undefined): Promise<Agents> {
  if (!before) process.once("SIGTERM", async () => (await process_wide.agents)?.service.stop());
  await (await before?.catch(() => undefined))?.service.stop(0);
  return open();
}

async function answer(request: Request): Promise<Response> {
  if (process_wide.from !== here) {
    process_wide.from = here;
    process_wide.agents = replace(process_wide.agents);
  }
  const { handler } = await (process_wide.agents as Promise<Agents>);
  return handler(request);
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
