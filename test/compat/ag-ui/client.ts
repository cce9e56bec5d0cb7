/** Clients of AG-UI: version 1.0.0, and the one that CopilotKit pins. Their own schemas check each event. */
import assert from "node:assert/strict";
import { HttpAgent } from "@ag-ui/client";
import { EventSchemas } from "@ag-ui/core/schemas";
import { HttpAgent as HttpAgent0 } from "ag-ui-client-0";
import { EventSchemas as EventSchemas0 } from "ag-ui-core-0";
import type { JsonObject } from "../../../lib/json.ts";

type Event = JsonObject & { readonly type: string };
export type Fetch = (url: string, init?: RequestInit) => Promise<Response>;

export type Kind = "1.0.0" | "0.0.59";
export const KINDS: readonly Kind[] = ["1.0.0", "0.0.59"];

interface Schemas {
  safeParse(event: unknown): { readonly error?: unknown };
}

/** The versions differ in their types only. */
const CLIENTS: Readonly<Record<Kind, readonly [Agent: typeof HttpAgent, schemas: Schemas]>> = {
  "1.0.0": [HttpAgent, EventSchemas],
  "0.0.59": [HttpAgent0 as never, EventSchemas0],
};

export interface Client {
  readonly agent: HttpAgent;
  /** The events of the last run. */
  readonly events: Event[];
  readonly errors: unknown[];
  run(parameters?: object): Promise<void>;
  say(content: string): Promise<void>;
}

let count = 0;

/** Creates a client whose events are checked by its own schemas. */
export function createClient(
  { fetch }: { readonly fetch: Fetch },
  graph: string,
  kind: Kind,
  options: object = {},
): Client {
  const [Agent, schemas] = CLIENTS[kind];
  const url = `http://localhost/ag-ui/${graph}`;
  /** An abort ends the body, as over a socket. */
  const disconnectAfter = async (input: string, init: RequestInit): Promise<Response> => {
    const response = await fetch(input, init);
    const { signal } = init;
    const body = signal ? response.body?.pipeThrough(new TransformStream(), { signal }) : response.body;
    return new Response(body, response);
  };
  const agent = new Agent({ url, threadId: `thread-${++count}`, fetch: disconnectAfter, ...options });
  const events: Event[] = [];
  const errors: unknown[] = [];
  return {
    agent,
    events,
    errors,
    async run(parameters = {}) {
      events.length = 0;
      await agent.runAgent(parameters, {
        onEvent: ({ event }: { readonly event: unknown }) => {
          assert.equal(schemas.safeParse(event).error, undefined, JSON.stringify(event));
          events.push(event as Event);
        },
        onRunErrorEvent: ({ event }: { readonly event: unknown }) => void errors.push(event),
      } as never);
    },
    async say(content) {
      agent.addMessage({ id: `u-${++count}`, role: "user", content });
      await this.run();
    },
  };
}

export const listTypes = ({ events }: Client): string[] => events.map(({ type }) => type);
export const findOutcome = ({ events }: Client): JsonObject => (events.at(-1) as JsonObject).outcome as JsonObject;
export const listInterrupts = (client: Client): JsonObject[] => findOutcome(client).interrupts as JsonObject[];
export const readLastContent = ({ agent }: Client): unknown => agent.messages.at(-1)?.content;
