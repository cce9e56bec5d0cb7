/** What the snippets of README.md and docs/ may use without declaring it: the application around them. */
import type { Client as SdkClient } from "@langchain/langgraph-sdk";
import type { LanguageModel } from "ai";
import type * as core from "greenroom";
import type { CompiledGraph } from "greenroom/langgraph";
import type * as server from "greenroom/server";
import type { SqlDriver } from "greenroom/sql";
import type { Storage } from "greenroom/storage";

declare global {
  // Greenroom
  const createService: typeof core.createService;
  const fromFunctions: typeof core.fromFunctions;
  const createHandler: typeof server.createHandler;
  const service: core.Service;
  const storage: Storage;
  const executor: core.Executor;
  const one: core.Executor;
  const two: core.Executor;
  const handler: server.Handler;
  const agents: server.Handler;
  const client: SdkClient;
  const thread_id: string;

  // Agents
  const agent: core.AgentFunction;
  const echo: core.AgentFunction;
  const graph: CompiledGraph;
  function buildGraph(model: unknown): CompiledGraph;
  const model: LanguageModel;
  const embeddings: { embedDocuments(texts: readonly string[]): Promise<number[][]> };

  // The host
  function open(): Promise<core.Service>;
  function clientDriver(client: unknown): SqlDriver;
  function openNewDatabase(): Promise<unknown>;
  const Deno: {
    serve(options: { hostname?: string; port?: number }, handler: server.Handler): unknown;
    upgradeWebSocket(request: Request): { socket: WebSocket; response: Response };
  };
}
