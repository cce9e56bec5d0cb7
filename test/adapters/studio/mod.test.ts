import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { studio } from "../../../adapters/studio/mod.ts";

const page = studio();
const get = async (path: string, headers: Record<string, string> = {}): Promise<Response> =>
  await page(new Request(`http://x${path}`, { headers }), path);

/** Returns the files that a page at this address names. */
async function listFiles(path: string): Promise<string[]> {
  const html = await (await get(path)).text();
  const names = [...html.matchAll(/(?:src|href)="([^":]+)"/g)].map(([, name]) => name as string);
  return names.map((name) => new URL(name, `http://x${path}`).pathname);
}

describe("the studio's files", () => {
  it("redirect from the mount to the page, with or without a final slash", async () => {
    for (const [path, at] of [
      ["/", "http://x/"],
      ["/studio", "http://x/studio"],
      ["", "http://x/agents"],
      ["/", "http://x/agents/"],
    ] as const) {
      const response = await page(new Request(at), path);
      assert.equal(response.status, 302);
      const target = new URL(response.headers.get("location") ?? "", at).pathname;
      assert.equal(target, at.includes("agents") ? "/agents/studio/" : "/studio/");
    }
  });

  it("are found from every address of the page", async () => {
    const first = await listFiles("/studio/");
    assert.equal(first.length, 2);
    for (const path of ["/studio/threads", "/studio/threads/1", "/studio/threads/a%2Fb"])
      assert.deepEqual(await listFiles(path), first);
    for (const file of first) assert.equal((await get(file)).status, 200);
  });

  it("forbid other hosts and inline scripts, and are cached by their names", async () => {
    const html = await get("/studio/");
    const policy = html.headers.get("content-security-policy") ?? "";
    assert.match(policy, /default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'/);
    assert.doesNotMatch(policy, /unsafe|https?:|\*/);
    // An address of this server may do more than show an image.
    assert.match(policy, /img-src data: blob:;/);
    assert.equal(html.headers.get("cache-control"), "no-cache");
    const etag = html.headers.get("etag") ?? "";
    assert.equal((await get("/studio/", { "if-none-match": etag })).status, 304);
    const [file = ""] = await listFiles("/studio/");
    const asset = await get(file);
    assert.match(asset.headers.get("cache-control") ?? "", /immutable/);
    assert.equal(asset.headers.get("content-security-policy"), policy);
    assert.doesNotMatch(await html.text(), /<script>|<style|style=|onload/);
  });

  it("are sent with gzip to clients that accept it, and plain to others", async () => {
    const [file = ""] = await listFiles("/studio/");
    const packed = await get(file, { "accept-encoding": "gzip, br" });
    assert.equal(packed.headers.get("content-encoding"), "gzip");
    const unpacked = (packed.body as ReadableStream<Uint8Array<ArrayBuffer>>).pipeThrough(
      new DecompressionStream("gzip"),
    );
    assert.equal(await new Response(unpacked).text(), await (await get(file)).text());
  });

  it("of an earlier build give 404, unlike the addresses of the page", async () => {
    assert.equal((await get("/studio/main-OLD.js")).status, 404);
    assert.equal((await get("/studio/store/docs/main.js")).status, 200, "the key of an item");
    assert.equal((await get("/studio/__proto__")).headers.get("content-type"), "text/html; charset=utf-8");
  });
});
