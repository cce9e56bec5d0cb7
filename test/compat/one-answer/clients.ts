/** Clients of each protocol that answer the first interrupt of an agent a given number of times. */
import assert from "node:assert/strict";
import { SendMessageRequest, type Task } from "@a2a-js/sdk";
import { ClientFactory } from "@a2a-js/sdk/client";
import { Client as McpClient, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import type { JsonObject } from "../../../lib/json.ts";
import type { Service } from "../../../lib/mod.ts";
import { asker, FORMS, TASKS } from "../../lib/http/endpoints/mcp/mcp.harness.ts";
import { until } from "../../support/until.ts";
import { createClient, listInterrupts } from "../ag-ui/client.ts";
import { openChat } from "../ai/chat.ts";
import { FIRST } from "./agents.ts";

/** The server under test. */
export interface Server {
  readonly url: string;
  readonly service: Service;
}

/** What became of an answer, as its client sees it. */
export interface Reply {
  /** The refusal of the client, such as `409 interrupt_already_answered`; null if it was not refused. */
  readonly refusal: string | null;
  /** The response text. */
  readonly text: string;
}

/** An agent that waits for the answer to its first interrupt. */
export interface Waiting {
  readonly thread_id: string;
  /** Sends an answer to the first interrupt, each time from another client. Also when the agent has another interrupt meanwhile. */
  answer(value: string): Promise<Reply>;
}

export interface Protocol {
  readonly name: string;
  /** The expected refusal of another answer; null: it gets the outcome of the first one. */
  readonly refuses: RegExp | null;
  /** The expected outcome of each answer. */
  readonly outcome?: RegExp;
  /**
   * The target that an answer names: the run that asks, the id of the interrupt, or nothing. A late one cannot reach the next interrupt.
   */
  readonly names: "run" | "id" | "nothing";
  ask(server: Server, agent: string): Promise<Waiting>;
}

const newestThread = async ({ service }: Server): Promise<string> =>
  (await service.threads.search({ limit: 1, sort_by: "created_at", sort_order: "desc" })).items[0]?.thread_id ?? "";

/** `fetch` for one client; remembers the last response that was refused. */
function recording(server: Server) {
  let refusal: string | null = null;
  const request = async (url: string, init?: RequestInit): Promise<Response> => {
    const response = await fetch(String(url).replace("http://localhost", server.url), init);
    if (response.ok) return response;
    const text = await response.clone().text();
    const body = text.startsWith("{") ? (JSON.parse(text) as JsonObject) : {};
    refusal = `${response.status} ${body.code ?? text}`;
    return response;
  };
  return { fetch: request, refusal: () => refusal };
}

const agui: Protocol = {
  name: "AG-UI",
  refuses: /^409 (?:interrupt_already_answered|no_open_interrupt)$/,
  names: "id",
  async ask(server, agent) {
    const threadId = crypto.randomUUID();
    const first = createClient(recording(server), agent, "1.0.0", { threadId });
    await first.say("Pay");
    const [question] = listInterrupts(first);
    assert.equal(question?.message, FIRST);
    return {
      thread_id: threadId,
      async answer(payload) {
        const http = recording(server);
        const client = createClient(http, agent, "1.0.0", { threadId, initialMessages: first.agent.messages });
        await client.run({ resume: [{ interruptId: question?.id, status: "resolved", payload }] }).catch(() => {});
        return { refusal: http.refusal(), text: JSON.stringify(client.events) };
      },
    };
  },
};

const ai = (by: "id" | "text"): Protocol => ({
  name: `AI SDK by ${by}`,
  refuses: by === "id" ? /^409 .*(?:answered|open)/ : /^409 /,
  names: "id",
  async ask(server, agent) {
    const id = crypto.randomUUID();
    const first = openChat({ id, agent, fetch: recording(server).fetch });
    await first.sendMessage({ text: "Pay" });
    const part = first.messages.at(-1)?.parts.find(({ type }) => type === "data-interrupt") as
      | { id?: string }
      | undefined;
    assert.ok(part?.id, JSON.stringify(first.messages));
    const messages = structuredClone(first.messages);
    return {
      thread_id: id,
      async answer(value) {
        const http = recording(server);
        const chat = openChat({ id, agent, messages: structuredClone(messages), fetch: http.fetch });
        if (by === "text") await chat.sendMessage({ text: value });
        else await chat.sendMessage(undefined, { body: { resume: { [String(part.id)]: value } } });
        return { refusal: http.refusal(), text: JSON.stringify(chat.messages) };
      },
    };
  },
});

const a2a = (by: "id" | "text"): Protocol => ({
  name: `A2A by ${by}`,
  refuses: /already answered|is working|waits for 1 answers/,
  names: by === "id" ? "id" : "nothing",
  async ask(server, agent) {
    const send = async (parts: readonly object[], ids: object = {}): Promise<Task> => {
      const client = await new ClientFactory().createFromUrl(`${server.url}/a2a/${agent}/`);
      const message = { messageId: crypto.randomUUID(), role: "ROLE_USER", parts, ...ids };
      return (await client.sendMessage(SendMessageRequest.fromJSON({ message }))) as Task;
    };
    const { id: taskId, contextId, status } = await send([{ text: "Pay" }]);
    const parts = (status?.message?.parts ?? []).map(({ content }) => content?.value as JsonObject | string);
    assert.equal(parts[0], FIRST);
    const { interrupt } = parts[1] as { readonly interrupt: { readonly id: string } };
    return {
      thread_id: contextId,
      async answer(value) {
        const answer = by === "id" ? { data: { resume: [{ id: interrupt.id, value }] } } : { text: value };
        try {
          return { refusal: null, text: JSON.stringify(await send([answer], { taskId, contextId })) };
        } catch (error) {
          return { refusal: String((error as Error).message), text: "" };
        }
      },
    };
  },
});

/** The official client answers first; later answers repeat its request with another value. */
const mcp = (era: "modern" | "legacy"): Protocol => ({
  name: `MCP, ${era}`,
  refuses: null,
  // In the legacy era, the reply to a question has no answer of its own.
  outcome: era === "modern" ? /Pay 9999 euros\?/ : /^$|Pay 9999 euros\?/,
  names: "run",
  async ask(server, agent) {
    const url = new URL(`${server.url}/mcp`);
    const interruptReceived = Promise.withResolvers<void>();
    const decision = Promise.withResolvers<string>();
    const requestSent = Promise.withResolvers<RequestInit>();
    const isAnswer = (text: string): boolean => (era === "modern" ? /"requestState"/ : /"id":"elicit:/).test(text);
    const options = era === "modern" ? { versionNegotiation: { mode: "auto" as const } } : {};
    const client = new McpClient(
      { name: "test", version: "1" },
      { capabilities: { elicitation: { form: {} } }, ...options },
    );
    client.setRequestHandler("elicitation/create", async ({ params }) => {
      if (params.message !== FIRST) return { action: "cancel" };
      interruptReceived.resolve();
      return { action: "accept", content: { answer: await decision.promise } };
    });
    const transport = new StreamableHTTPClientTransport(url, {
      fetch: (input, init) => {
        if (typeof init?.body === "string" && isAnswer(init.body)) requestSent.resolve(init);
        return fetch(input, init);
      },
    });
    await client.connect(transport);
    const result = client.callTool({ name: agent, arguments: { messages: [] } });
    result.catch(() => {});
    await interruptReceived.promise;
    const thread_id = await newestThread(server);
    let answerValue: string | null = null;
    return {
      thread_id,
      async answer(next) {
        if (answerValue === null) {
          answerValue = next;
          decision.resolve(next);
          const text = JSON.stringify(await result);
          await client.close();
          return { refusal: null, text };
        }
        const { body, headers } = await requestSent.promise;
        const text = String(body).replace(JSON.stringify(answerValue), JSON.stringify(next));
        const response = await fetch(url, { method: "POST", headers: headers as HeadersInit, body: text });
        assert.ok(response.ok, `${response.status}`);
        return { refusal: null, text: await response.text() };
      },
    };
  },
});

/** The official client has no tasks. */
const mcpTask: Protocol = {
  name: "MCP, tasks",
  refuses: null,
  outcome: /"resultType":"complete"/,
  names: "run",
  async ask(server, agent) {
    const ask = asker(fetch, `${server.url}/mcp`);
    const options = { capabilities: { ...FORMS, ...TASKS } };
    await server.service.assistants.update(agent, { metadata: { mcp: { task: "always" } } });
    const { taskId = "" } = (await ask("tools/call", { name: agent, arguments: { messages: [] } }, options)).result;
    await server.service.assistants.update(agent, { metadata: { mcp: {} } });
    let task: JsonObject = {};
    await until(async () => {
      task = (await ask("tasks/get", { taskId }, options)).result;
      return task.status === "input_required";
    });
    const [key = ""] = Object.keys(task.inputRequests as JsonObject);
    const thread_id = await newestThread(server);
    return {
      thread_id,
      async answer(answer) {
        const inputResponses = { [key]: { action: "accept", content: { answer } } };
        const { error, text } = await ask("tasks/update", { taskId, inputResponses }, options);
        return { refusal: error.message === undefined ? null : String(error.message), text };
      },
    };
  },
};

export const PROTOCOLS: readonly Protocol[] = [
  mcp("modern"),
  mcp("legacy"),
  mcpTask,
  a2a("id"),
  a2a("text"),
  agui,
  ai("id"),
  ai("text"),
];
