import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { serviceInternals } from "../../../lib/service.ts";
import { type ForgeryWorld, forgeryWorld } from "../../security/forgery.ts";

const UNKNOWN = "99999999-9999-4999-8999-999999999999";
const TOKENS = "/api/v1/feedback/tokens";

/** Keeps the test alive: Deno ends a test with only timers of the service. */
async function inWorld(body: (world: ForgeryWorld) => Promise<void>): Promise<void> {
  const alive = setInterval(() => {}, 60_000);
  try {
    await using world = await forgeryWorld();
    await body(world);
  } finally {
    clearInterval(alive);
  }
}

async function readResponse(answer: Promise<Response>): Promise<unknown[]> {
  const response = await answer;
  const headers = [...response.headers].filter(([name]) => name !== "x-request-id").sort();
  return [response.status, headers, await response.text()];
}

describe("a forged feedback token", () => {
  it("gets the same response as every other one, and records nothing", () =>
    inWorld(async ({ forge, kit, token }) => {
      const { tried, answers, recorded } = await forge(10_000);
      assert.deepEqual([tried, recorded], [10_000, 0]);
      for (const [kind, responseCounts] of answers) {
        assert.equal(responseCounts.size, 1, `${kind}: ${[...responseCounts].join("\n")}`);
        assert.match([...responseCounts.keys()][0] as string, /^\[404,.*Feedback token not found/, kind);
      }
      const good = await kit.fetch(`http://greenroom${TOKENS}/${token}`, { method: "POST", body: '{"score":1}' });
      assert.equal(good.status, 200, "the token that all of it was made from is good");
    }));

  it("of a rolled-back or deleted run gets the response of an unknown token", () =>
    inWorld(async ({ dead, kit }) => {
      assert.equal(dead.length, 8);
      const post = (id: string) =>
        readResponse(kit.fetch(`http://greenroom${TOKENS}/${id}`, { method: "POST", body: '{"score":1}' }));
      const unknown = await post(UNKNOWN);
      assert.equal(unknown[0], 404);
      for (const id of dead) assert.deepEqual(await post(id), unknown);
    }));
});

describe("a row of another workspace", () => {
  it("gets the response of a row that does not exist", () =>
    inWorld(async ({ ask, foreign_run, kit }) => {
      const foreignTrace = (await serviceInternals(kit.service).options.storage.getTrace(foreign_run)) ?? assert.fail();
      const theirs = await kit.service.accounts.createKey({ kind: "sk", workspaces: [foreignTrace.workspace_id] });
      const createResponse = await kit.fetch("http://greenroom/api/v1/feedback", {
        method: "POST",
        headers: { "x-api-key": theirs.key },
        body: JSON.stringify({ run_id: foreign_run, key: "k", score: 1 }),
      });
      assert.equal(createResponse.status, 200);
      const { id } = await createResponse.json();
      const pairs: readonly (readonly [status: number, method: string, path: string, body?: string])[] = [
        [404, "POST", TOKENS, '{"run_id":"{run}","feedback_key":"k"}'],
        [200, "GET", `${TOKENS}?run_id={run}`],
        [404, "POST", "/api/v1/feedback", '{"run_id":"{run}","key":"k","score":1}'],
        [404, "POST", "/api/v1/feedback", '{"session_id":"{project}","key":"k","score":1}'],
        [200, "GET", "/api/v1/feedback?run={run}"],
        [200, "GET", "/api/v1/feedback?session={project}"],
        [200, "GET", "/api/v1/feedback/stats?run={run}"],
        [404, "GET", "/api/v1/feedback/{id}"],
        [404, "PATCH", "/api/v1/feedback/{id}", '{"score":2}'],
        [404, "DELETE", "/api/v1/feedback/{id}"],
      ];
      const filled = (text: string, exists: boolean): string =>
        text
          .replace("{run}", exists ? foreign_run : UNKNOWN)
          .replace("{project}", exists ? foreignTrace.project_id : UNKNOWN)
          .replace("{id}", exists ? id : UNKNOWN);
      for (const [status, method, path, body] of pairs) {
        const [foreign, unknown] = await Promise.all(
          [true, false].map((exists) => {
            const requestBody = body === undefined ? undefined : JSON.parse(filled(body, exists));
            return readResponse(ask(method, filled(path, exists), requestBody));
          }),
        );
        assert.equal(foreign?.[0], status, `${method} ${path} ${foreign}`);
        assert.deepEqual(foreign, unknown, `${method} ${path}`);
      }
    }));
});
