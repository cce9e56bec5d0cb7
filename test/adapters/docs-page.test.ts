/** The page at `/docs`. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { docsPage } from "../../adapters/docs-page.ts";
import type { OpenApi } from "../../lib/http/handler.ts";
import { type FakeOptions, fake } from "../lib/http/fake-service.ts";

const readPage = async (options: FakeOptions = {}): Promise<string> => {
  const response = await fake({ docs: docsPage, ...options }).send("GET", `${options.prefix ?? ""}/docs`);
  assert.equal(response.status, 200);
  return await response.text();
};

describe("/docs", () => {
  it("lists every route and schema of the OpenAPI document, and every link has a target", async () => {
    const page = await readPage();
    const { paths, components } = (await (await fake().send("GET", "/openapi.json")).json()) as OpenApi;
    for (const [path, methods] of Object.entries(paths)) {
      for (const method of Object.keys(methods)) {
        const heading = `>${method.toUpperCase()}</span> <code>${path}</code></h3>`;
        assert.ok(page.includes(heading), `${method} ${path}`);
      }
    }
    const ids = new Set([...page.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id));
    for (const name of Object.keys(components.schemas)) assert.ok(ids.has(`schema-${name}`), name);
    const links = [...page.matchAll(/ href="([^"]+)"/g)].map(([, link = ""]) => link);
    assert.ok(links.length > 200);
    for (const link of links) assert.ok(link === "openapi.json" || ids.has(link.slice(1)), link);
    assert.equal(ids.size, [...page.matchAll(/ id="/g)].length);
  });

  it("runs no script and requests no other host, and its policy permits neither", async () => {
    const send = (): Promise<Response> => fake({ docs: docsPage }).send("GET", "/docs");
    const [first, second] = [await send(), await send()];
    const policy = first.headers.get("content-security-policy") ?? "";
    const nonce = /'nonce-([^']+)'/.exec(policy)?.[1] ?? "";
    assert.match(policy, /^default-src 'none'; style-src 'nonce-[0-9a-f-]{36}';/);
    assert.doesNotMatch(policy, /unsafe|\*|https?:/);
    assert.notEqual(second.headers.get("content-security-policy"), policy);
    const page = await first.text();
    assert.ok(page.includes(`<style nonce="${nonce}">`));
    assert.doesNotMatch(page, /<script|<link|<img|<iframe| style=| on\w+=|https?:\/\//);
  });

  it("escapes the markup of the document", () => {
    const evil = '<img src=x onerror="alert(1)">';
    const operation = { summary: evil, responses: { 200: { description: evil } }, tags: [evil] };
    return docsPage({
      info: { title: evil, version: evil, description: evil },
      servers: [{ url: evil }],
      paths: { [`/${evil}`]: { get: operation } },
      components: {
        schemas: { [evil]: { type: "object", properties: { [evil]: { description: evil, enum: [evil] } } } },
      },
    })
      .text()
      .then((page) => assert.doesNotMatch(page, /<img/));
  });

  it("uses the handler's prefix and groups, and responds with 501 without the option", async () => {
    assert.match(await readPage({ prefix: "/agents" }), /<code>\/agents\/threads<\/code>/);
    const less = await readPage({ http: { disable_store: true } });
    assert.match(less, /<code>\/threads<\/code>/);
    assert.doesNotMatch(less, /<code>\/store\/items<\/code>/);
    const { send } = fake();
    assert.equal((await send("GET", "/docs")).status, 501);
    assert.equal((await fake({ docs: docsPage, http: { disable_meta: true } }).send("GET", "/docs")).status, 404);
  });
});
