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

/** Returns a document that has a text in each place, without its slashes where they would separate names. */
function createDocument(text: string): OpenApi {
  const name = text.replaceAll("/", "|");
  const schema = { type: "object", properties: { [text]: { description: text, enum: [text], default: text } } };
  const media = { schema: { $ref: `#/components/schemas/${name}` }, example: { [text]: text } };
  const failure = { schema: { type: text }, examples: { [text]: { $ref: `#/components/examples/${name}` } } };
  const operation = {
    ...{ operationId: text, summary: text, description: text, tags: [text] },
    parameters: [{ name: text, in: text, required: true, description: text, example: text, schema: { type: text } }],
    requestBody: { required: true, content: { [text]: media } },
    responses: {
      200: { description: text, content: { [text]: media } },
      422: { description: text, content: { [text]: failure } },
    },
    "x-codeSamples": [{ label: text, source: text }],
  };
  return {
    info: { title: text, version: text, description: text },
    servers: [{ url: text }],
    tags: [{ name: text, description: text }],
    paths: { [`/${text}`]: { [text]: operation } },
    components: {
      schemas: { [name]: schema },
      examples: { [name]: { summary: text, description: text, value: { [text]: text } } },
    },
  };
}

/** Returns the elements of a page with the names of their attributes, in their order. */
const listTags = (page: string): string[] => {
  const body = page.replace(/<style[\s\S]*?<\/style>/g, "").replace(/<script nonce[\s\S]*?\n<\/script>/, "");
  return [...body.matchAll(/<[!/a-zA-Z](?:[^>"]|"[^"]*")*>/g)].map(([tag]) => tag.replaceAll(/="[^"]*"/g, ""));
};

/** The maximum size of the page for each of its operations. With all members and failures at each one, it had 7,800 characters. */
const MAX_CHARS_PER_OPERATION = 5_500;

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
    assert.match(page, /await client\.runs\.create\("7a9d5c1e-/);
  });

  it("has a script that a browser can parse, with all functions of its source", () => {
    assert.doesNotThrow(() => new Function(SCRIPT));
    const source = readFileSync(new URL("../../adapters/docs-page/script.ts", import.meta.url), "utf8");
    const names = [...source.matchAll(/^(?:async )?function (\w+)/gm)].map(([, name = ""]) => name);
    assert.ok(names.length > 10);
    for (const name of names) assert.match(SCRIPT, new RegExp(`function ${name}\\(`), name);
  });

  const evils = [
    '<img src=x onerror="alert(1)">',
    '" onfocus="alert(1)" autofocus x="',
    "' onfocus='alert(1)' x='",
    "</title></textarea></pre></style></script><script>alert(1)</script>",
    "<!--",
    "&lt;img src=x&gt;",
  ];
  for (const evil of evils) {
    it(`shows the text ${evil} of a document as it is, without markup`, async () => {
      const page = await docsPage(createDocument(evil)).text();
      assert.deepEqual(listTags(page), listTags(await docsPage(createDocument("word")).text()));
      assert.ok(page.includes(evil.replaceAll("&", "&amp;").replaceAll("<", "&lt;")));
    });
  }

  it("is rendered once for each document, and is not sent again to a client that has it", async () => {
    const { send } = fake({ docs: docsPage });
    const first = await send("GET", "/docs");
    const etag = first.headers.get("etag") ?? "";
    assert.match(etag, /^"[0-9a-f-]+"$/);
    assert.equal(first.headers.get("cache-control"), "private, no-cache");
    const withoutNonce = async (response: Response): Promise<string> =>
      (await response.text()).replaceAll(/nonce="[^"]+"/g, "");
    const firstText = await withoutNonce(first);
    for (const tag of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
      const unchanged = await send("GET", "/docs", undefined, { "if-none-match": tag });
      assert.equal(unchanged.status, 304, tag);
      assert.equal(unchanged.headers.get("etag"), etag);
      // The stored page has the nonce of its own policy.
      assert.equal(unchanged.headers.get("content-security-policy"), null);
      assert.equal(await unchanged.text(), "");
    }
    const changed = await send("GET", "/docs", undefined, { "if-none-match": '"other"' });
    assert.equal(changed.status, 200);
    assert.equal(await withoutNonce(changed), firstText);
    const mounted = await fake({ docs: docsPage, prefix: "/agents" }).send("GET", "/agents/docs");
    assert.notEqual(mounted.headers.get("etag"), etag);
    let reads = 0;
    const document = {
      info: { title: "T", version: "1", description: "" },
      servers: [],
      get paths() {
        reads += 1;
        return {};
      },
      components: { schemas: {} },
    };
    const texts = [docsPage(document), docsPage(document)].map((response) => response.text());
    assert.equal(reads, 1);
    const [one, other] = await Promise.all(texts);
    assert.notEqual(one, other);
  });

  it("shows one section before its script runs, and the members of each named schema once", async () => {
    const page = await readPage();
    const sections = [...page.matchAll(/<section[^>]*>/g)].map(([tag]) => tag);
    assert.ok(sections.length > 100);
    assert.deepEqual(
      sections.filter((tag) => !/ hidden\b/.test(tag)),
      ['<section id="top">'],
    );
    assert.match(page, /<noscript><style nonce="[^"]+">main > section\[hidden\]/);
    // Each operation that has these members has a copy of them once people open it.
    const bodies = page.matchAll(/<h3>Body: <a href="#schema-RunCreate">RunCreate<\/a><\/h3>(<div[^>]*>)/g);
    const places = [...bodies].map(([, tag]) => tag);
    assert.ok(places.length > 4);
    assert.deepEqual([...new Set(places)], ['<div data-role="members">']);
    const operationCount = sections.filter((tag) => tag.includes(' class="operation"')).length;
    assert.ok(page.length < MAX_CHARS_PER_OPERATION * operationCount, `${page.length} for ${operationCount}`);
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
