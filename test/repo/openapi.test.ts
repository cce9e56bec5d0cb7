import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { REASONS, STATUS } from "../../lib/errors.ts";
import { loadAllRoutes } from "../../lib/http/routes/mod.ts";
import type { Json, JsonObject } from "../../lib/json.ts";
import { createOpenApi, createOperationId } from "../../scripts/openapi/mod.ts";
import { HAND_READ } from "../../scripts/openapi/platform.ts";
import { routesPage } from "../../scripts/openapi/routes-page.ts";
import { fake } from "../lib/http/fake-service.ts";
import { testService } from "../suite/kit.ts";
import type { Operation, ResponseObject } from "./openapi/send.ts";
import { createValidator } from "./openapi/validator.ts";

const ROUTES = await loadAllRoutes();

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

interface Description {
  readonly paths: Record<string, Record<string, { readonly security?: []; readonly responses: object }>>;
  readonly security: unknown;
  readonly components: { readonly schemas: Record<string, unknown>; readonly securitySchemes: unknown };
}

/** The document with what tells people how to call it. */
interface FullDescription extends JsonObject {
  readonly paths: never;
}
interface DescribedOperation extends Operation {
  readonly description: string;
}

const readDocument = (): FullDescription => JSON.parse(read("lib/http/openapi.json")) as FullDescription;
/** Returns each operation with its path, and with responses in place of references. */
function listOperations(document: JsonObject): { path: string; method: string; operation: DescribedOperation }[] {
  const { responses: shared } = document.components as unknown as { responses: Record<string, ResponseObject> };
  const resolve = (response: ResponseObject): ResponseObject =>
    response.$ref ? (shared[response.$ref.split("/").at(-1) as string] as ResponseObject) : response;
  const paths = document.paths as unknown as Record<string, Record<string, DescribedOperation>>;
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => {
      const responses = Object.entries(operation.responses).map(([status, response]) => [status, resolve(response)]);
      return { path, method, operation: { ...operation, responses: Object.fromEntries(responses) } };
    }),
  );
}

describe("openapi.json", () => {
  it("equals the output of scripts/openapi/mod.ts", () => {
    const { version } = JSON.parse(read("package.json")) as { version: string };
    const document = `${JSON.stringify(createOpenApi(version), null, 1)}\n`;
    assert.equal(read("lib/http/openapi.json"), document, "run: node scripts/openapi/mod.ts");
  });

  it("has its routes in docs/reference/http-routes.md", () => {
    const { version } = JSON.parse(read("package.json")) as { version: string };
    const page = routesPage(ROUTES, createOpenApi(version));
    assert.equal(read("docs/reference/http-routes.md"), page, "run: node scripts/openapi/mod.ts");
  });

  it("has its routes under /greenroom in docs/operations/inspecting.md", () => {
    const page = read("docs/operations/inspecting.md");
    const operationRoutes = ROUTES.filter(({ tag }) => tag === "Operations");
    const lines = operationRoutes.map(
      ({ method, path }) => `${method.toUpperCase()} ${path.replace(/:(\w+)/g, "{$1}")}`,
    );
    assert.deepEqual(
      lines.filter((line) => !page.includes(`\`${line}\``)),
      [],
    );
  });

  it("describes the routes of the handler, all and no others", () => {
    const { paths } = JSON.parse(read("lib/http/openapi.json")) as Description;
    const described = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method} ${path}`),
    );
    const built = ROUTES.filter(({ handle }) => handle);
    const routed = built.map(({ method, path }) => `${method} ${path.replace(/:(\w+)\+?/g, "{$1}")}`);
    assert.ok(routed.length > 70);
    assert.deepEqual(described.sort(), routed.sort());
  });

  it("names the limit of each body", async () => {
    const operations = listOperations(readDocument());
    await using service = await testService({ agents: { echo: () => "Hi" } });
    const body = JSON.stringify("x".repeat(300 * 1024));
    const headers = { "content-length": String(body.length) };
    let limited = 0;
    for (const { method, path } of ROUTES.filter((route) => route.handle && route.method !== "get")) {
      const { operation } = operations.find(
        (described) => described.method === method && described.path === path.replace(/:(\w+)\+?/g, "{$1}"),
      ) as (typeof operations)[number];
      const text = operation.responses["413"]?.description;
      if (text === undefined) continue;
      const url = `http://localhost${path.replace(/:\w+\+?/g, crypto.randomUUID())}`;
      const { status } = await service.fetch(new Request(url, { method, body, headers }));
      const kibibytes = /larger than (\d+) KiB/.exec(text)?.[1];
      assert.equal(status === 413, kibibytes !== undefined, `${method} ${path}: ${status}, ${text}`);
      if (kibibytes) limited += 1;
    }
    assert.equal(limited, 3);
  });

  it("adds requests that are parsed by hand only to routes without a schema", () => {
    for (const [key, { query, body }] of Object.entries(HAND_READ)) {
      const route = ROUTES.find(({ method, path }) => `${method} ${path}` === key);
      assert.ok(route?.handle, key);
      assert.ok(!(query && route.query) && !(body && route.body), key);
    }
  });

  it("names only schemas that it has", () => {
    const text = read("lib/http/openapi.json");
    const { components } = JSON.parse(text) as Description;
    for (const [, name = ""] of text.matchAll(/#\/components\/schemas\/(\w+)/g))
      assert.ok(name in components.schemas, name);
  });

  it("lets a search select each field of its results", () => {
    const { schemas } = (JSON.parse(read("lib/http/openapi.json")) as Description).components;
    const listFields = (name: string) => Object.entries((schemas[name] as { properties: object }).properties);
    for (const [of, never] of Object.entries({ Assistant: "", Thread: "error ttl extracted", Cron: "" })) {
      const select = JSON.stringify(listFields(`${of}Search`).find(([name]) => name === "select"));
      const missing = listFields(of).filter(([name]) => !select.includes(`"${name}"`));
      assert.equal(missing.map(([name]) => name).join(" "), never, of);
    }
  });

  it("marks the routes that require a key", () => {
    const { paths, security, components } = JSON.parse(read("lib/http/openapi.json")) as Description;
    assert.deepEqual(security, [{ "X-API-Key": [] }, {}]);
    assert.deepEqual(components.securitySchemes, {
      "X-API-Key": { type: "apiKey", in: "header", name: "X-API-Key" },
    });
    const open = Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods)
        .filter(([, { security }]) => security !== undefined)
        .map(([method]) => `${method} ${path}`),
    );
    assert.deepEqual(open.sort(), [
      "get /.well-known/oauth-protected-resource",
      "get /.well-known/oauth-protected-resource/mcp",
      "get /api/v1/feedback/tokens/{token}",
      "get /api/v1/info",
      "get /docs",
      "get /info",
      "get /ok",
      "get /openapi.json",
      "get /ready",
      "post /api/v1/feedback/tokens/{token}",
      "post /greenroom/events/{address}",
    ]);
    for (const methods of Object.values(paths)) {
      for (const { security, responses } of Object.values(methods)) assert.equal("401" in responses, !security);
    }
  });

  it("describes the events of a run", () => {
    const { schemas } = (JSON.parse(read("lib/http/openapi.json")) as Description).components;
    const { properties } = schemas.RunCreate as { properties: Record<string, { anyOf: unknown[] }> };
    assert.deepEqual(properties.webhook?.anyOf, [
      { type: "string", minLength: 1, maxLength: 65_536 },
      { type: "null" },
    ]);
    const key = { type: "string", minLength: 1, maxLength: 255 };
    assert.deepEqual(properties.feedback_keys?.anyOf, [
      key,
      { type: "array", items: key, maxItems: 50 },
      { type: "null" },
    ]);
  });

  it("has each member of a cron patch, and null once", () => {
    const { schemas } = (JSON.parse(read("lib/http/openapi.json")) as Description).components;
    const { properties } = schemas.CronPatch as { properties: Record<string, { anyOf?: { type?: string }[] }> };
    assert.deepEqual(properties.input, {});
    for (const name of ["timezone", "end_time", "config", "webhook", "stream_mode"]) {
      assert.equal(properties[name]?.anyOf?.filter(({ type }) => type === "null").length, 1, name);
    }
  });

  it("gives each operation an id that follows from its method and path, and never changes", () => {
    const ids = listOperations(readDocument()).map(({ operation }) => operation.operationId);
    assert.equal(new Set(ids).size, ids.length);
    assert.equal(
      createOperationId({ method: "post", path: "/threads/:thread_id/runs/wait" }),
      "post_threads_thread_id_runs_wait",
    );
    assert.ok(ids.every((id) => /^(?:get|post|put|patch|delete)(?:_[a-z0-9]+)+$/.test(id)));
    for (const id of ["post_threads", "get_well_known_agent_card_json", "post_api_v1_feedback_tokens_token"])
      assert.ok(ids.includes(id), id);
  });

  it("has a description, and an example of request and response, for each operation", () => {
    for (const { operation } of listOperations(readDocument())) {
      const { operationId, description, parameters, requestBody, responses } = operation;
      assert.match(description, /^[A-Z].*\.$/s, operationId);
      for (const { name, in: location, example } of parameters)
        assert.ok(location !== "path" || example !== undefined, `${operationId} ${name}`);
      if (requestBody) assert.notEqual(requestBody.content["application/json"].example, undefined, operationId);
      for (const [status, response] of Object.entries(responses)) {
        assert.ok(response.description, `${operationId} ${status}`);
        if (status !== "200") continue;
        const examples = Object.values(response.content ?? {}).filter(({ example }) => example !== undefined);
        assert.equal(examples.length, 1, operationId);
      }
    }
  });

  it("has examples that fit their schemas", () => {
    const { listExamples, validate } = createValidator(readDocument());
    const examples = listExamples();
    assert.ok(examples.length > 400);
    for (const { pointer, schema, json } of examples) assert.deepEqual(validate(schema, json), [], pointer);
    assert.notDeepEqual(validate("/components/schemas/RunCreate", { assistant: "chat" }), []);
  });

  it("lists the codes of each error of a client, with an example of each", () => {
    const document = readDocument();
    const { examples, schemas } = document.components as unknown as {
      examples: Record<string, { value: { code?: string } | string }>;
      schemas: { Error: { properties: { code: { enum: string[] } } } };
    };
    const errorCodes = [...Object.keys(STATUS), ...Object.keys(REASONS)].sort();
    assert.deepEqual(schemas.Error.properties.code.enum, errorCodes);
    let codes = 0;
    for (const { operation } of listOperations(document)) {
      for (const [status, { description, content = {} }] of Object.entries(operation.responses)) {
        if (!/^4/.test(status)) continue;
        const [media] = Object.values(content) as unknown as {
          example?: Json;
          examples?: Record<string, { $ref: string }>;
        }[];
        // Errors of JSON-RPC have numbers in place of codes.
        if (media?.example !== undefined) continue;
        const listed = [...description.matchAll(/`([a-z_]+)`/g)].map(([, code = ""]) => code);
        const named = Object.keys(media?.examples ?? {});
        assert.ok(named.length > 0, `${operation.operationId} ${status}`);
        assert.deepEqual(listed.filter((code) => errorCodes.includes(code)).sort(), [...named].sort());
        for (const [code, { $ref }] of Object.entries(media?.examples ?? {})) {
          const { value } = examples[$ref.split("/").at(-1) as string] as { value: { code?: string } | string };
          if (typeof value !== "string") assert.equal(value.code, code);
          codes += 1;
        }
      }
    }
    assert.ok(codes > 500);
  });

  it("takes any members in objects that list none", () => {
    const closed: string[] = [];
    const visit = (node: unknown, path: string): void => {
      if (typeof node !== "object" || node === null) return;
      const { type, properties, additionalProperties } = node as Record<string, unknown>;
      if (type === "object" && !properties && additionalProperties === undefined) closed.push(path);
      for (const [name, member] of Object.entries(node))
        if (name !== "example" && name !== "examples") visit(member, `${path}/${name}`);
    };
    visit(readDocument(), "");
    assert.deepEqual(closed, []);
  });

  it("is served", async () => {
    const served = (await (await fake().send("GET", "/openapi.json")).json()) as Record<string, unknown>;
    assert.equal(served.openapi, "3.1.0");
    assert.deepEqual(served.servers, [{ url: "/" }]);
    assert.deepEqual(readDocument().servers, [{ url: "/" }]);
    assert.deepEqual((readDocument().info as JsonObject).license, { name: "MIT", identifier: "MIT" });
  });
});
