/** The agent protocols: AI SDK, AG-UI, MCP and A2A. */
import type { ErrorReason } from "../../../lib/errors.ts";
import { THREAD } from "../example-ids.ts";
import type { ErrorBody, OperationTexts } from "./text.ts";

/** The errors of requests that start the run of a conversation. */
const CHAT_CODES: Readonly<Record<number, readonly ErrorReason[]>> = {
  404: ["assistant_not_found", "thread_not_found"],
  409: ["thread_busy", "limit_reached", "interrupt_already_answered", "no_open_interrupt", "conflict"],
};
const AGENT = { assistant_id: "agent" };
/** Returns an error of JSON-RPC, as a server of MCP refuses a request. */
const rpcError = (message: string, code = -32000): ErrorBody => ({
  schema: "RpcError",
  example: { jsonrpc: "2.0", id: null, error: { code, message } },
});
const METHOD_NOT_ALLOWED = rpcError("Method not allowed.");

export const protocolTexts: OperationTexts = {
  "post /ai/:assistant_id/chat": {
    description:
      "Takes a chat as `useChat` of the AI SDK sends it, starts a run on its thread, and streams the answer as the AI SDK's chunks.",
    body: {
      id: THREAD,
      trigger: "submit-message",
      messages: [{ id: "m1", role: "user", parts: [{ type: "text", text: "Hello" }] }],
    },
    codes: CHAT_CODES,
  },
  "get /ai/:assistant_id/chat/:chat_id/stream": {
    description:
      "Streams the answer that the chat is getting, from its beginning: for a page that was reloaded. 204 if no run is active.",
    query: { ai_sdk: 7 },
  },
  "post /ai/:assistant_id/chat/:chat_id/stop": {
    description: "Cancels the run that answers the chat. What was said so far stays.",
    codes: { 404: ["thread_not_found", "run_not_found"] },
  },
  "get /ai/:assistant_id/chat/:chat_id": {
    description:
      "Returns the messages of the chat as the AI SDK has them, for a page that shows an earlier chat. 204 if there is none.",
  },
  "post /ag-ui/:assistant_id": {
    description: "Takes the input of an AG-UI client, starts a run on its thread, and streams the events of AG-UI.",
    body: { threadId: THREAD, runId: "run-1", messages: [{ id: "m1", role: "user", content: "Hello" }] },
    codes: { ...CHAT_CODES, 406: ["bad_request"] },
  },
  "post /mcp": {
    description:
      "Takes a message of the Model Context Protocol. Each agent is a tool, and a call of a tool is a run. Errors of the protocol have status 200.",
    headers: { Accept: "application/json, text/event-stream" },
    body: { jsonrpc: "2.0", id: 1, method: "tools/list", params: {} },
    error_bodies: {
      406: rpcError("Not Acceptable: Client must accept both application/json and text/event-stream"),
      415: rpcError("Unsupported Media Type: Content-Type must be application/json"),
    },
  },
  "get /mcp": {
    description: "Answers 405, as the protocol has it for servers that do not store sessions.",
    error_bodies: { 405: METHOD_NOT_ALLOWED },
  },
  "delete /mcp": {
    description: "Answers 405, as the protocol has it for servers that do not store sessions.",
    error_bodies: { 405: METHOD_NOT_ALLOWED },
  },
  "get /.well-known/oauth-protected-resource": {
    description: "Names the authorization servers of `/mcp`. Only with the option `http.mcp.protected_resource`.",
  },
  "get /.well-known/oauth-protected-resource/mcp": {
    description: "Names the authorization servers of `/mcp`, at the path that newer clients use.",
  },
  "post /a2a/:assistant_id": {
    description:
      "Takes a message of the Agent2Agent protocol. A task is a thread, and each message to it is a run. Errors of the protocol have status 200.",
    path: AGENT,
    headers: { "A2A-Version": "1.0" },
    body: {
      jsonrpc: "2.0",
      id: 1,
      method: "SendMessage",
      params: { message: { messageId: "m1", role: "ROLE_USER", parts: [{ text: "Hello" }] } },
    },
    codes: { 404: ["assistant_not_found", "not_found"] },
    error_bodies: {
      400: rpcError("Request payload validation error: not a JSON-RPC 2.0 request with an id", -32600),
    },
  },
  "get /a2a/:assistant_id/.well-known/agent-card.json": {
    description: "Returns the card by which other agents find the address, the skills and the abilities of the agent.",
    path: AGENT,
    headers: { "A2A-Version": "1.0" },
  },
  "get /.well-known/agent-card.json": {
    description:
      "Returns the card of an agent at the address where clients look for it. A server with one agent needs no `assistant_id`.",
    query: { assistant_id: "agent" },
    headers: { "A2A-Version": "1.0" },
    codes: { 404: ["assistant_not_found"] },
  },
};
