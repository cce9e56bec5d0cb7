/** Replaces the server of a page while its agent streams. */
import { join } from "node:path";
import { serve } from "../../adapters/node/mod.ts";
import { nodeSqlite } from "../../adapters/sqlite/node.ts";
import { createHandler } from "../../lib/http/handler.ts";
import { type AgentFunction, createService, type FunctionJob, fromFunctions } from "../../lib/mod.ts";
import { createTemporaryFolder } from "../support/programs.ts";
import { openHost } from "./browser.ts";

export interface Deployed extends AsyncDisposable {
  readonly origin: string;
  /** Stops the server, whose agent streams "Half. " and waits, and starts the next one, whose agent also streams "The rest.". */
  deploy(): Promise<void>;
}

export async function openDeployed(script: string): Promise<Deployed> {
  const folder = createTemporaryFolder();
  const start = async (waits: boolean) => {
    const agent: AgentFunction = async function* ({ signal }: FunctionJob) {
      yield "Half. ";
      if (waits) await new Promise((_, failed) => signal.addEventListener("abort", () => failed(signal.reason)));
      yield "The rest.";
    };
    const executor = fromFunctions({ agent });
    const service = await createService({ storage: nodeSqlite(join(folder.path, "a.db")), executor });
    return { service, handler: createHandler(service, { prefix: "/api" }) };
  };
  let app: Awaited<ReturnType<typeof start>> | null = await start(true);
  const page = await openHost(script, undefined, "/nowhere");
  const server = await serve(
    async (request) => {
      const { pathname, search } = new URL(request.url);
      if (!pathname.startsWith("/api/")) return await fetch(`${page.origin}${pathname}${search}`);
      return app ? await app.handler(request) : new Response("Away", { status: 503 });
    },
    { hostname: "127.0.0.1", port: 0 },
  );
  return {
    origin: `http://127.0.0.1:${server.port}`,
    async deploy() {
      const old = app;
      app = null;
      await old?.service.stop(0);
      app = await start(false);
    },
    async [Symbol.asyncDispose]() {
      await server.close();
      await app?.service.stop(0);
      await page[Symbol.asyncDispose]();
      folder[Symbol.dispose]();
    },
  };
}
