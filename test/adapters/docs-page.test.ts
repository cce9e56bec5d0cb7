/** The page at `/docs`. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { SCRIPT } from "../../adapters/docs-page/script.ts";
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
        const heading = `>${method.toUpperCase()}</span> <code>${path}</code></p></header>`;
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

  it("permits its own script and style by a nonce, and requests to its own server alone", async () => {
    const send = (): Promise<Response> => fake({ docs: docsPage }).send("GET", "/docs");
    const [first, second] = [await send(), await send()];
    const policy = first.headers.get("content-security-policy") ?? "";
    const nonce = /'nonce-([^']+)'/.exec(policy)?.[1] ?? "";
    assert.equal(
      policy,
      `default-src 'none'; style-src 'nonce-${nonce}'; script-src 'nonce-${nonce}'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
    );
    assert.match(nonce, /^[0-9a-f-]{36}$/);
    assert.notEqual(second.headers.get("content-security-policy"), policy);
    const page = await first.text();
    assert.ok(page.includes(`<style nonce="${nonce}">`));
    assert.equal([...page.matchAll(/<script/g)].length, 1);
    assert.equal([...page.matchAll(new RegExp(`<script nonce="${nonce}">`, "g"))].length, 1);
    assert.doesNotMatch(page, /<link|<img|<iframe|<base|<[a-z]+ [^>]*\b(?:style|on[a-z]+)=/);
    assert.doesNotMatch(SCRIPT, /https?:|<\/|<!--|\b(?:localStorage|sessionStorage|indexedDB|cookie|eval|innerHTML)\b/);
  });

  it("has a command, a call and the example of the request for each operation", async () => {
    const page = await readPage();
    const { paths } = (await (await fake().send("GET", "/openapi.json")).json()) as OpenApi;
    const count = Object.values(paths).flatMap(Object.keys).length;
    for (const role of ["curl", "send"])
      assert.equal(
        [...page.matchAll(new RegExp(`data-role="${role}"`, "g"))].length,
        role === "send" ? count - 1 : count,
      );
    assert.equal([...page.matchAll(/data-role="(?:sdk|fetch)"/g)].length, count);
    assert.match(page, /await client\.runs\.create\(&#34;7a9d5c1e-/);
  });

  it("has a script that a browser can parse, with all functions of its source", () => {
    assert.doesNotThrow(() => new Function(SCRIPT));
    const source = readFileSync(new URL("../../adapters/docs-page/script.ts", import.meta.url), "utf8");
    const names = [...source.matchAll(/^(?:async )?function (\w+)/gm)].map(([, name = ""]) => name);
    assert.ok(names.length > 10);
    for (const name of names) assert.match(SCRIPT, new RegExp(`function ${name}\\(`), name);
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
