import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { loadAllRoutes } from "../../lib/http/routes/mod.ts";
import { createOpenApi } from "../../scripts/openapi/mod.ts";
import { HAND_READ } from "../../scripts/openapi/platform.ts";
import { routesPage } from "../../scripts/openapi/routes-page.ts";
import { fake } from "../lib/http/fake-service.ts";
import { testService } from "../suite/kit.ts";

const ROUTES = await loadAllRoutes();

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

interface Description {
  readonly paths: Record<string, Record<string, { readonly security?: []; readonly responses: object }>>;
  readonly security: unknown;
  readonly components: { readonly schemas: Record<string, unknown>; readonly securitySchemes: unknown };
}

type Responses = Readonly<Record<string, { readonly description: string }>>;

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
    const { paths } = JSON.parse(read("lib/http/openapi.json")) as Description;
    await using service = await testService({ agents: { echo: () => "Hi" } });
    const body = JSON.stringify("x".repeat(300 * 1024));
    const headers = { "content-length": String(body.length) };
    let limited = 0;
    for (const { method, path } of ROUTES.filter((route) => route.handle && route.method !== "get")) {
      const responses = paths[path.replace(/:(\w+)\+?/g, "{$1}")]?.[method]?.responses as Responses;
      const text = responses["413"]?.description;
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

  it("is served", async () => {
    const served = (await (await fake().send("GET", "/openapi.json")).json()) as Record<string, unknown>;
    assert.equal(served.openapi, "3.1.0");
    assert.deepEqual(served.servers, [{ url: "/" }]);
  });
});
