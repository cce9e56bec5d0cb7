/**
 * Sends the example of every operation of the OpenAPI document to a running server. The answers are those of
 * scripts/openapi/answers, and fit their schemas. A change that is meant to change them records them anew:
 *
 *   GREENROOM_RECORD=1 node --test test/repo/openapi.examples.test.ts && node scripts/openapi/mod.ts
 */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { after, describe, it } from "node:test";
import { Client } from "@langchain/langgraph-sdk";
import { Client as LangSmithClient } from "langsmith";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import { ANSWERS_FOLDER, type Answer, findAnswer } from "../../scripts/openapi/answers.ts";
import { keepAlive } from "../support/alive.ts";
import { prepare, preparedOperations } from "./openapi/preparations.ts";
import { createRequest, type Operation, replaceIds, sendExample } from "./openapi/send.ts";
import { createValidator } from "./openapi/validator.ts";
import { startWorld, type World } from "./openapi/world.ts";

keepAlive();

const document = JSON.parse(readFileSync(new URL("../../lib/http/openapi.json", import.meta.url), "utf8")) as {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
} & JsonObject;
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
);
const validator = createValidator(document);

/** The operations whose answers depend on the release, the machine or the time that something took. */
const VARIES = new Set(["get_greenroom_server", "get_metrics", "get_info", "get_api_v1_info", "get_openapi_json"]);
/** The operations whose example is refused: this status is what the example shows. */
const REFUSED: Readonly<Record<string, number>> = { get_mcp: 405, delete_mcp: 405 };

const isRecording = process.env.GREENROOM_RECORD === "1";
const recorded = new Map<string, Record<string, Answer>>();

/** Opens the WebSocket of the example. Returns the status of the handshake. */
async function openSocket({ url }: World, path: string): Promise<number> {
  const socket = new WebSocket(`${url.replace("http", "ws")}${path}`);
  await new Promise<void>((resolve, reject) => {
    socket.onopen = () => resolve();
    socket.onerror = () => reject(new Error("The handshake was refused"));
  });
  socket.close();
  return 101;
}

describe("the examples of the OpenAPI document", () => {
  it("have rows for operations that exist", () => {
    const operationIds = new Set(operations.map(({ operation }) => operation.operationId));
    assert.deepEqual(
      preparedOperations.filter((operationId) => !operationIds.has(operationId)),
      [],
    );
    assert.ok(operationIds.size > 100);
  });

  for (const { path, method, operation } of operations) {
    const { operationId } = operation;
    it(`${operationId} has the documented response`, { timeout: 20_000 }, async () => {
      await using world = await startWorld();
      await prepare(world, operationId);
      const request = createRequest(method, path, operation, world);
      if (request.headers.Upgrade) {
        assert.equal(await openSocket(world, request.path), 101);
        assert.ok("101" in operation.responses);
        return;
      }
      const { received, example } = await sendExample(world, request, operationId);
      const refusal = REFUSED[operationId];
      if (refusal === undefined)
        assert.ok(received.status < 300, `${received.status} ${JSON.stringify(received.body)}`);
      else assert.equal(received.status, refusal);
      assert.deepEqual(validator.validateAnswer(path, method, received), []);
      const [section = ""] = operation.tags;
      recorded.set(section, { ...recorded.get(section), [operationId]: example });
      if (isRecording) return;
      const answer = findAnswer(operationId);
      assert.ok(answer, "record the answers");
      if (VARIES.has(operationId)) assert.deepEqual(listMembers(example.body), listMembers(answer.body));
      else assert.deepEqual(example, answer);
    });
  }

  after(() => {
    if (!isRecording) return;
    for (const [section, answers] of recorded) {
      const name = section.toLowerCase().replace(/[^a-z0-9]+/g, "-");
      writeFileSync(new URL(`${name}.json`, ANSWERS_FOLDER), `${JSON.stringify(answers, null, 2)}\n`);
    }
  });
});

/** Returns the paths of all members of a value. */
const listMembers = (json: Json, path = ""): string[] =>
  isObject(json)
    ? Object.entries(json).flatMap(([name, member]) => [`${path}.${name}`, ...listMembers(member, `${path}.${name}`)])
    : [];

/** A request that a client sent. */
interface SentRequest {
  readonly method: string;
  readonly url: URL;
  readonly body: Json;
}

type Program = (client: unknown, console: { readonly log: () => void }) => Promise<void>;
const AsyncFunction = Object.getPrototypeOf(async () => {}).constructor as new (...texts: string[]) => Program;

/** Runs the call of an SDK. Resolves with its request to the path; the call may go on. Rejects if it makes none. */
async function runSample(world: World, sample: { label: string; source: string }, path: string): Promise<SentRequest> {
  const program = new AsyncFunction("client", "console", replaceIds(sample.source, world.ids));
  return await new Promise<SentRequest>((resolve, reject) => {
    const record = async (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
      const request = new Request(input, init);
      const url = new URL(request.url);
      const text = await request.clone().text();
      if (url.pathname === path) resolve({ method: request.method, url, body: text === "" ? null : JSON.parse(text) });
      return await fetch(request);
    };
    const options = { maxRetries: 0, fetch: record };
    const client =
      sample.label === "langsmith"
        ? new LangSmithClient({
            ...{ apiUrl: `${world.url}/api/v1`, apiKey: "any", autoBatchTracing: false },
            ...{ fetchImplementation: record as typeof fetch, callerOptions: { maxRetries: 0 } },
          })
        : new Client({ apiUrl: world.url, apiKey: null, callerOptions: options });
    program(client, { log() {} }).then(() => reject(new Error(`The call sends nothing to ${path}`)), reject);
  });
}

describe("the calls of SDKs in the OpenAPI document", () => {
  const sampled = operations.filter(({ operation }) => operation["x-codeSamples"]);

  it("are those of most operations", () => assert.ok(sampled.length > 55));

  for (const { path, method, operation } of sampled) {
    it(`send the example of ${operation.operationId}`, { timeout: 20_000 }, async () => {
      await using world = await startWorld();
      await prepare(world, operation.operationId);
      const request = createRequest(method, path, operation, world);
      const [sample] = operation["x-codeSamples"] as NonNullable<Operation["x-codeSamples"]>;
      const sampleRequest = await runSample(world, sample, request.path);
      assert.equal(sampleRequest.method, request.method);
      // The SDK writes 1 and 0 for true and false.
      for (const [name, text] of request.query) {
        const values = sampleRequest.url.searchParams
          .getAll(name)
          .map((input) => (name === "wait" && input === "1" ? "true" : input));
        assert.ok(values.includes(text), name);
      }
      if (request.body !== undefined) assertIncludes(sampleRequest.body, JSON.parse(request.body) as Json);
    });
  }
});

/** Asserts that `json` has the members of `part`, in all depths. */
function assertIncludes(json: Json, part: Json): void {
  if (Array.isArray(part) && Array.isArray(json)) {
    assert.equal(json.length, part.length);
    for (const [index, element] of part.entries()) assertIncludes(json[index] as Json, element);
  } else if (isObject(part) && isObject(json)) {
    for (const [name, member] of Object.entries(part)) assertIncludes(json[name] ?? null, member);
  } else assert.deepEqual(json, part);
}
