/** Sends the examples of the OpenAPI document, and reads the answers as the examples have them. */
import { isObject, type Json, type JsonObject } from "../../../lib/json.ts";
import type { Answer } from "../../../scripts/openapi/answers.ts";
import type { World } from "./world.ts";

/** An operation of the document. */
export interface Operation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly parameters: readonly {
    readonly name: string;
    readonly in: "path" | "query" | "header";
    readonly example?: Json;
  }[];
  readonly requestBody?: { readonly content: { readonly "application/json": { readonly example: Json } } };
  readonly responses: Readonly<Record<string, ResponseObject>>;
  readonly "x-codeSamples"?: readonly [{ readonly label: string; readonly source: string }];
}

export interface ResponseObject {
  readonly $ref?: string;
  readonly description: string;
  readonly content?: Readonly<Record<string, { readonly schema: JsonObject; readonly example?: Json }>>;
}

/** The example of an operation as a request, with the ids of a server. */
export interface ExampleRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | undefined;
}

/** Replaces each key of the map in a text by its value. */
export const replaceIds = (text: string, ids: ReadonlyMap<string, string>): string =>
  [...ids].reduce((replaced, [from, to]) => replaced.replaceAll(from, to), text);

/** Returns the request of an example. */
export function createRequest(method: string, template: string, operation: Operation, { ids }: World): ExampleRequest {
  const query = new URLSearchParams();
  const headers: Record<string, string> = {};
  let path = template;
  for (const { name, in: location, example } of operation.parameters) {
    if (example === undefined) continue;
    if (location === "path") path = path.replace(`{${name}}`, encodeURIComponent(String(example)));
    if (location === "header") headers[name] = String(example);
    if (location === "query") for (const text of [example].flat()) query.append(name, replaceIds(String(text), ids));
  }
  const body = operation.requestBody?.content["application/json"].example;
  return {
    method: method.toUpperCase(),
    path: replaceIds(path, ids),
    query,
    headers: {
      accept: "application/json, text/event-stream",
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...headers,
    },
    body: body === undefined ? undefined : replaceIds(JSON.stringify(body), ids),
  };
}

/** Reads a stream up to its end, or up to the text after which nothing follows until something else happens. */
async function readStream(response: Response, end: RegExp | undefined): Promise<string> {
  if (!end) return await response.text();
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const decoder = new TextDecoder();
  let text = "";
  while (!end.test(text)) {
    const { value: chunk, done } = await reader.read();
    if (done) break;
    text += decoder.decode(chunk, { stream: true });
  }
  await reader.cancel();
  return text.replace(/^: heartbeat\n+/gm, "");
}

/** The last text of the streams that stay open. */
const STREAM_ENDS: Readonly<Record<string, RegExp>> = {
  get_threads_thread_id_stream: /event: run_done\n[\s\S]*?\n\n/,
  post_threads_thread_id_stream_events: /"event":"completed"[\s\S]*?\n\n/,
  get_ai_assistant_id_chat_chat_id_stream: /"delta":"Hello, "[\s\S]*?\n\n/,
};

/** The ids that differ from server to server; those of version 5 follow from names. */
const UUID = /\b[0-9a-f]{8}-[0-9a-f]{4}-[467][0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b/g;
const TIME = /(2026-01-\d\dT09):\d\d:\d\d(\.\d+)?/g;
const EPOCH_MS = /\b17672[56]\d{8}\b/g;

/** Writes a body as examples have it: with their ids, and with one time. */
export function toExampleText(text: string, { ids, url }: World): string {
  const examples = new Map([...ids].map(([example, id]) => [id, example]));
  const exampleIds = new Set(ids.keys());
  const otherIds = new Map<string, string>();
  /** The ids of traces and spans. */
  const otherDigits = new Map<string, string>();
  return (
    replaceIds(text, examples)
      .replaceAll(url, "https://agents.example")
      .replace(UUID, (id) => {
        if (exampleIds.has(id)) return id;
        if (!otherIds.has(id))
          otherIds.set(id, `00000000-0000-4000-8000-${String(otherIds.size + 1).padStart(12, "0")}`);
        return otherIds.get(id) as string;
      })
      .replace(TIME, (_, hour, fraction) => `${hour}:00:00${fraction === undefined ? "" : ".000"}`)
      .replace(/(?<="(?:age|wait|duration)_ms":)\d+/g, "0")
      .replace(/(?<="(?:active|start|total|max)_ms":)[\d.]+/g, "0")
      .replace(/(?<="(?:span_id|parent_id|trace_id)":")[0-9a-f]{8,}(?=")/g, (digits) => {
        if (!otherDigits.has(digits))
          otherDigits.set(digits, (otherDigits.size + 1).toString(16).padStart(digits.length, "0"));
        return otherDigits.get(digits) as string;
      })
      .replace(EPOCH_MS, "1767258000000")
      // The ids of the AI SDK's chunks begin with the time of their run.
      .replace(/(?<=^id: )019b78c9/gm, "00000000")
  );
}

/** The bodies that are too long for an example, shortened. */
const SHORT_BODIES: Readonly<Record<string, (body: Json) => Json>> = {
  get_openapi_json: (body) => (isObject(body) ? { openapi: body.openapi ?? null, info: body.info ?? null } : body),
  get_docs: () => "<!doctype html>",
  get_greenroom_runs_stats: (body) =>
    isObject(body) && Array.isArray(body.minutes) ? { ...body, minutes: body.minutes.slice(-1) } : body,
};

/** Sends an example. Returns the answer as the server wrote it, and as an example. */
export async function sendExample(
  world: World,
  { method, path, query, headers, body }: ExampleRequest,
  operationId: string,
): Promise<{ readonly received: Answer; readonly example: Answer }> {
  const url = `${world.url}${path}${query.size > 0 ? `?${query}` : ""}`;
  const response = await world.advanceUntil(fetch(url, { method, headers, ...(body === undefined ? {} : { body }) }));
  const type = response.headers.get("content-type")?.split(";")[0] ?? null;
  const text = await world.advanceUntil(readStream(response, STREAM_ENDS[operationId]));
  const parse = (bodyText: string): Json => {
    if (bodyText === "") return null;
    return type === "application/json" ? (JSON.parse(bodyText) as Json) : bodyText;
  };
  const { status } = response;
  const shorten = SHORT_BODIES[operationId] ?? ((json: Json) => json);
  return {
    received: { status, type: text === "" ? null : type, body: parse(text) },
    example: { status, type: text === "" ? null : type, body: shorten(parse(toExampleText(text, world))) },
  };
}
