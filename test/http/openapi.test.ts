import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { openapi } from "../../scripts/openapi/mod.ts";
import { fake } from "./fake.ts";

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8");

interface Description {
  readonly paths: Record<string, Record<string, unknown>>;
  readonly components: { readonly schemas: Record<string, unknown> };
}

describe("openapi.json", () => {
  it("is what scripts/openapi/mod.ts makes of the schemas", () => {
    const { version } = JSON.parse(read("package.json")) as { version: string };
    const made = `${JSON.stringify(openapi(version), null, 1)}\n`;
    assert.equal(read("lib/http/openapi.json"), made, "run: node scripts/openapi/mod.ts");
  });

  it("describes the routes of server.ts, all and no others", () => {
    const { paths } = JSON.parse(read("lib/http/openapi.json")) as Description;
    const described = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method} ${path}`),
    );
    const routed = [...read("server.ts").matchAll(/\.(get|post|patch|delete)\("(\/[^"]+)"/g)].map(
      ([, method, path = ""]) => `${method} ${path.replace(/:(\w+)/g, "{$1}")}`,
    );
    assert.ok(routed.length > 30);
    assert.deepEqual(described.sort(), routed.sort());
  });

  it("names only schemas it holds", () => {
    const text = read("lib/http/openapi.json");
    const { components } = JSON.parse(text) as Description;
    for (const [, name = ""] of text.matchAll(/#\/components\/schemas\/(\w+)/g))
      assert.ok(name in components.schemas, name);
  });

  it("is served", async () => {
    const served = (await (await fake().send("GET", "/openapi.json")).json()) as Record<string, unknown>;
    assert.equal(served.openapi, "3.1.0");
    assert.deepEqual(served.servers, [{ url: "/" }]);
  });
});
