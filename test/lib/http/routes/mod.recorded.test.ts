/**
 * The wire stays as it is, byte for byte: a fixed conversation gives the responses of recorded/exchanges.json. A change that is meant
 * to change the wire records it anew, and its diff shows what clients will see:
 *
 *   GREENROOM_RECORD=1 node --test test/lib/http/routes/mod.recorded.test.ts
 */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { describe, it } from "node:test";
// Loaded here, because a later import takes real time, which moves the clock of the exchanges on some runtimes.
import "../../../../lib/functions/open-durable-call.ts";
import "../../../../lib/steps/journal.ts";
import "../../../../lib/steps/mod.ts";
import type { Route } from "../../../../lib/http/route.ts";
import { loadAllRoutes } from "../../../../lib/http/routes/mod.ts";
import { assertCode } from "../../../support/error-codes.ts";
import { converse, type Exchange } from "./recorded/exchanges.ts";

const ROUTES = await loadAllRoutes();

const FILE = new URL("recorded/exchanges.json", import.meta.url);
/** Routes that depend on the release, on options of the handler or on a socket. Other files test them. */
const ELSEWHERE =
  /^(?:GET \/(?:metrics|info|openapi\.json|docs)|(?:GET|POST) \/ui\/.*|GET (?:\/a2a\/.*)?\/\.well-known\/.*|(?:GET|POST|DELETE) \/mcp|GET \/threads\/:thread_id\/stream(?:\/events)?)$/;

interface Schema {
  readonly $ref?: string;
  readonly items?: Schema;
  readonly properties?: object;
}
interface Answer {
  readonly $ref?: string;
  readonly content?: Readonly<Record<string, { readonly schema: Schema; readonly examples?: object }>>;
}
interface Description {
  readonly paths: Readonly<
    Record<string, Readonly<Record<string, { readonly responses: Readonly<Record<string, Answer>> }>>>
  >;
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>;
    readonly responses: Readonly<Record<string, Answer>>;
  };
}

const createPattern = ({ path }: Pick<Route, "path">): RegExp =>
  new RegExp(
    `^${path
      .replace(/:\w+\+/g, ".+")
      .replace(/:\w+/g, "[^/]+")
      .replace("*", ".*")}$`,
  );

const exchanges = await converse();
if (process.env.GREENROOM_RECORD === "1") writeFileSync(FILE, `${JSON.stringify(exchanges, null, 2)}\n`);
const recorded = JSON.parse(readFileSync(FILE, "utf8")) as Exchange[];

describe("the recorded exchanges", () => {
  it("include each route of the table", () => {
    const calls = exchanges.map(({ request }) => request.split(/[ ?]/).slice(0, 2));
    const missing = ROUTES.filter(({ method, path, handle }) => {
      const pattern = createPattern({ path });
      return handle && !calls.some(([callMethod, at = ""]) => callMethod === method.toUpperCase() && pattern.test(at));
    }).map(({ method, path }) => `${method.toUpperCase()} ${path}`);
    const forgotten = missing.filter((route) => !ELSEWHERE.test(route));
    assert.deepEqual(forgotten, [], `call ${forgotten} at the end of recorded/exchanges.ts, then record anew`);
  });

  const document = readFileSync(new URL("../../../../lib/http/openapi.json", import.meta.url), "utf8");
  const { paths, components } = JSON.parse(document) as Description;
  /** Finds the responses of the route in the OpenAPI document, by status. */
  const findResponses = ({ request }: Exchange) => {
    const [method = "", at = ""] = request.split(/[ ?]/);
    const route = ROUTES.find(
      (row) => row.handle && row.method === method.toLowerCase() && createPattern(row).test(at),
    );
    return route && paths[route.path.replace(/:(\w+)\+?/g, "{$1}")]?.[route.method]?.responses;
  };

  it("have only statuses that the OpenAPI document names", () => {
    const unnamed = exchanges.filter(
      (exchange) => !(exchange.status in (findResponses(exchange) ?? { [exchange.status]: {} })),
    );
    const undocumented = unnamed.map(({ request, status }) => `${status} ${request.slice(0, 120)}`);
    assert.deepEqual(undocumented, [], "add the status to `errors` of its row");
  });

  it("have only codes that the OpenAPI document names", () => {
    const unnamed = exchanges.flatMap((exchange) => {
      const answer = findResponses(exchange)?.[exchange.status];
      const { content } = answer?.$ref
        ? (components.responses[answer.$ref.split("/").at(-1) ?? ""] ?? {})
        : (answer ?? {});
      const { examples } = content?.["application/json"] ?? {};
      if (exchange.status < 400 || !examples) return [];
      const { code } = JSON.parse(exchange.body) as { readonly code: string };
      return code in examples ? [] : [`${exchange.status} ${code} ${exchange.request.slice(0, 120)}`];
    });
    assert.deepEqual(unnamed, [], "add the code to `codes` of its text in scripts/openapi/operations");
  });

  it("have only members that the OpenAPI document names", () => {
    const resolved = (schema: Schema): Schema => {
      const { $ref, items } = schema;
      if ($ref) return resolved(components.schemas[$ref.split("/").at(-1) as string] as Schema);
      return items ? resolved(items) : schema;
    };
    for (const exchange of exchanges.filter(({ status }) => status === 200)) {
      const described = findResponses(exchange)?.[200]?.content?.["application/json"];
      const { properties } = described ? resolved(described.schema) : {};
      if (!properties) continue;
      const rows = [JSON.parse(exchange.body)].flat();
      const unnamed = new Set(rows.flatMap(Object.keys).filter((name) => !(name in properties)));
      assert.deepEqual([...unnamed], [], `${exchange.request.slice(0, 120)}: add them to scripts/openapi`);
    }
  });

  it("have a code in every error", () => {
    const isText = ({ headers }: Exchange): boolean => headers["content-type"]?.startsWith("text/plain") ?? false;
    const errors = exchanges.filter((exchange) => exchange.status >= 400 && !isText(exchange));
    assert.ok(errors.length > 20);
    for (const { body } of errors) assertCode(body);
    assert.throws(() => assertCode('{"detail":"Thread not found"}'), /no known code/);
  });

  it("are as many as in the file", () => assert.equal(exchanges.length, recorded.length));

  for (const [index, expected] of recorded.entries()) {
    it(`${index + 1}: ${expected.request.slice(0, 120)}`, () => assert.deepEqual(exchanges[index], expected));
  }
});
