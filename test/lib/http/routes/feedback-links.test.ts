/** Feedback by token beyond the case file: the tables of the token route, row by row. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { FeedbackRecord } from "../../../../lib/feedback/mod.ts";
import { errorResponse } from "../../../../lib/http/respond.ts";
import { prefersHtml } from "../../../../lib/http/routes/feedback-links.ts";
import {
  type Answer,
  ask,
  editor,
  type FeedbackKit,
  feedbackKit,
  RUN,
  type Sent,
  UNKNOWN,
} from "../../feedback/feedback.harness.ts";

const TOKENS = "/api/v1/feedback/tokens";
const PLAIN = `${TOKENS}/{plain}`;

async function records(kit: FeedbackKit): Promise<FeedbackRecord[]> {
  return (await ask(kit, "GET", "/api/v1/feedback")).json as FeedbackRecord[];
}

/** Formats the response: the location of a finding, or the stored record. */
async function submitted(kit: FeedbackKit, method: string, path: string, request: Sent = {}): Promise<string> {
  const { status, loc } = await ask(kit, method, path, request);
  const all = await records(kit);
  for (const { id } of all) await ask(kit, "DELETE", `/api/v1/feedback/${id}`, { by: editor });
  if (status !== 200) {
    assert.equal(all.length, 0, "nothing is stored");
    return `${status} ${loc ?? ""}`.trim();
  }
  assert.equal(all.length, 1);
  const { score, value, comment, correction } = all[0] as FeedbackRecord;
  return JSON.stringify([score, value, comment, correction]);
}

describe("feedback in a body", () => {
  const post = (kit: FeedbackKit, token: string, body: unknown): Promise<string> =>
    submitted(kit, "POST", `${TOKENS}/{${token}}`, { body });

  it("is stored as sent, or refused with its location", async () => {
    await using kit = await feedbackKit();
    const table: readonly (readonly [body: unknown, expected: string])[] = [
      [{ score: 1, value: 0, comment: "c", correction: {}, metadata: {} }, '[1,0,"c",{}]'],
      [{ score: 0.25 }, "[0.25,null,null,null]"],
      [{ score: 0 }, "[0,null,null,null]"],
      [{ score: true }, "[true,null,null,null]"],
      [{ score: false }, "[false,null,null,null]"],
      [{ value: 0 }, "[null,0,null,null]"],
      [{ value: false }, "[null,false,null,null]"],
      [{ value: "x" }, '[null,"x",null,null]'],
      [{ value: {} }, "[null,{},null,null]"],
      [{ comment: "c" }, '[null,null,"c",null]'],
      [{ comment: "a\0b\0" }, '[null,null,"ab",null]'],
      [{ comment: "😀".repeat(20_000) }, JSON.stringify([null, null, "😀".repeat(20_000), null])],
      [{ correction: "better" }, '[null,null,null,"better"]'],
      [{ correction: { a: [1, null] } }, '[null,null,null,{"a":[1,null]}]'],
      [{ score: 1, value: null, comment: null, correction: null, metadata: null }, "[1,null,null,null]"],
      [{ score: 1, extend_trace_retention: true, key: "other", unknown: [] }, "[1,null,null,null]"],
      [{ score: 1, comment: "" }, '[1,null,"",null]'],
      [{}, "422 body"],
      [{ score: null, value: null, comment: null, correction: null }, "422 body"],
      [{ comment: "" }, "422 body"],
      [{ comment: "\0" }, "422 body"],
      [{ value: "" }, "422 body"],
      [{ correction: "" }, "422 body"],
      [{ metadata: { a: 1 } }, "422 body"],
      [{ extend_trace_retention: true }, "422 body"],
      [{ score: "1" }, "422 body.score"],
      [{ score: "" }, "422 body.score"],
      [{ score: [1] }, "422 body.score"],
      [{ score: {} }, "422 body.score"],
      [{ value: [] }, "422 body.value"],
      [{ score: 1, comment: true }, "422 body.comment"],
      [{ comment: {} }, "422 body.comment"],
      [{ comment: "😀".repeat(20_001) }, "422 body.comment"],
      [{ correction: 5 }, "422 body.correction"],
      [{ correction: true }, "422 body.correction"],
      [{ correction: [] }, "422 body.correction"],
      [{ score: 1, metadata: "text" }, "422 body.metadata"],
      [{ score: 1, metadata: [] }, "422 body.metadata"],
      [[], "422 body"],
      [[{ score: 1 }], "422 body"],
      [5, "422 body"],
      [null, "422 body"],
    ];
    for (const [body, expected] of table) {
      assert.equal(await post(kit, "plain", body), expected, JSON.stringify(body).slice(0, 200));
    }
    const raws: readonly (readonly [raw: string | Uint8Array<ArrayBuffer>, expected: string])[] = [
      ['{"score":1e999}', "422 body.score"],
      ['{"score":-1e999}', "422 body.score"],
      ['{"score":NaN}', "422 body"],
      ['{"score":Infinity}', "422 body"],
      ['{"value":{"a":[1e999]}}', "422 body.value"],
      ['{"correction":{"a":1e999}}', "422 body.correction"],
      ['{"score":1,"metadata":{"a":1e999}}', "422 body.metadata"],
      ['{"score":1.0e0}', "[1,null,null,null]"],
      ["", "422 body"],
      ["{", "422 body"],
      [new Uint8Array([0x22, 0xff, 0x22]), "422 body"],
      [`{"value":${'{"a":'.repeat(70)}1${"}".repeat(70)}}`, "422 body"],
      [`${"[".repeat(200_000)}`, "422 body"],
    ];
    for (const [raw, expected] of raws)
      assert.equal(await submitted(kit, "POST", PLAIN, { raw }), expected, String(raw));
    for (const type of ["text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "application/json"]) {
      const request = { raw: '{"score":1}', headers: { "content-type": type, "x-api-key": "anything" } };
      assert.equal(await submitted(kit, "POST", PLAIN, request), "[1,null,null,null]", type);
    }
  });

  it("keeps members such as __proto__, and metadata as that of its source", async () => {
    await using kit = await feedbackKit();
    const raw = '{"value":{"__proto__":1},"metadata":{"__proto__":{"a":1}}}';
    assert.equal((await ask(kit, "POST", PLAIN, { raw })).status, 200);
    const [record] = await records(kit);
    assert.equal(
      JSON.stringify([record?.value, record?.feedback_source.metadata]),
      '[{"__proto__":1},{"__proto__":{"a":1}}]',
    );
  });

  it("is checked by the token's configuration", async () => {
    await using kit = await feedbackKit();
    const table: readonly (readonly [token: string, body: unknown, expected: string])[] = [
      ["cont", { score: 0 }, "[0,null,null,null]"],
      ["cont", { score: 1 }, "[1,null,null,null]"],
      ["cont", { score: true }, "[true,null,null,null]"],
      ["cont", { value: 7 }, "[null,7,null,null]"],
      ["cont", { score: 1.0000001 }, "422 body.score"],
      ["cont", { score: -1 }, "422 body.score"],
      ["cat", { score: 0 }, '[0,"bad",null,null]'],
      ["cat", { score: true }, '[true,"good",null,null]'],
      ["cat", { value: "good" }, '[1,"good",null,null]'],
      ["cat", { value: "bad", comment: "c" }, '[0,"bad","c",null]'],
      ["cat", { score: 1, value: "good" }, '[1,"good",null,null]'],
      ["cat", { comment: "c" }, '[null,null,"c",null]'],
      ["cat", { score: 1, value: { a: 1 } }, '[1,{"a":1},null,null]'],
      ["cat", { score: 2 }, "422 body.score"],
      ["cat", { score: 0.5 }, "422 body.score"],
      ["cat", { value: "Good" }, "422 body.value"],
      ["cat", { score: 1, value: "bad" }, "422 body.value"],
      ["cat", { score: 2, value: "bad" }, "422 body.score"],
      ["free", { score: 99, value: "anything" }, '[99,"anything",null,null]'],
    ];
    for (const [token, body, expected] of table) {
      assert.equal(await post(kit, token, body), expected, `${token} ${JSON.stringify(body)}`);
    }
    assert.equal(await submitted(kit, "GET", `${TOKENS}/{cat}?value=good`), '[1,"good",null,null]');
    assert.equal(await submitted(kit, "GET", `${TOKENS}/{cat}?score=3`), "422 query.score");
    assert.equal(await submitted(kit, "GET", `${TOKENS}/{cont}?score=TRUE`), "[true,null,null,null]");
  });
});

describe("feedback in a query", () => {
  it("is parsed from text", async () => {
    await using kit = await feedbackKit();
    const table: readonly (readonly [query: string, expected: string])[] = [
      ["score=1&comment=very+good", '[1,null,"very good",null]'],
      ["score=-0.5e1", "[-5,null,null,null]"],
      ["score=TRUE", "[true,null,null,null]"],
      ["score=False", "[false,null,null,null]"],
      ["score=0", "[0,null,null,null]"],
      ["value=007", '[null,"007",null,null]'],
      ["value=-3.5", "[null,-3.5,null,null]"],
      ["value=false", "[null,false,null,null]"],
      ["value=NaN", '[null,"NaN",null,null]'],
      ["value=null", '[null,"null",null,null]'],
      ["value=%2B1", '[null,"+1",null,null]'],
      ["value=%7B%22a%22%3A1%7D", '[null,"{\\"a\\":1}",null,null]'],
      ["comment=%F0%9F%98%80%00", '[null,null,"😀",null]'],
      ["comment=true", '[null,null,"true",null]'],
      ["correction=%7B%22a%22%3A1%7D", '[null,null,null,{"a":1}]'],
      ["correction=%22text%22", '[null,null,null,"text"]'],
      ["score=1&correction=", "[1,null,null,null]"],
      ["score=1&metadata=nonsense&extend_trace_retention=x&key=y&utm_source=mail", "[1,null,null,null]"],
      ["", "422 query"],
      ["score=", "422 query"],
      ["comment=%00", "422 query"],
      ["utm_source=mail", "422 query"],
      ["metadata=%7B%7D", "422 query"],
      ["score=good", "422 query.score"],
      ["score=null", "422 query.score"],
      ["score=007", "422 query.score"],
      ["score=+1", "422 query.score"],
      ["score=.5", "422 query.score"],
      ["score=1.", "422 query.score"],
      ["score=0x10", "422 query.score"],
      ["score=NaN", "422 query.score"],
      ["score=1e999", "422 query.score"],
      ["value=1e999", "422 query.value"],
      ["correction=text", "422 query.correction"],
      ["correction=5", "422 query.correction"],
      ["correction=null", "422 query.correction"],
      ["correction=%5B1%5D", "422 query.correction"],
      ["correction=%7B%22a%22%3A1e999%7D", "422 query.correction"],
      [`comment=${"c".repeat(20_001)}`, "422 query.comment"],
    ];
    for (const [query, expected] of table) {
      assert.equal(await submitted(kit, "GET", `${PLAIN}${query && "?"}${query}`), expected, query.slice(0, 100));
    }
  });

  it("is answered with a page if the client prefers HTML", async () => {
    await using kit = await feedbackKit();
    const accept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    const page = await ask(kit, "GET", `${PLAIN}?score=1&comment=<script>`, { headers: { accept } });
    assert.equal(page.status, 200);
    assert.equal(page.headers.get("content-type"), "text/html; charset=utf-8");
    assert.equal(page.headers.get("cache-control"), "no-store");
    assert.equal(page.headers.get("access-control-allow-origin"), "*");
    assert.match(page.text, /thank you/i);
    assert.doesNotMatch(page.text, /script/);
    assert.equal((await records(kit)).length, 1);
    const posted = await ask(kit, "POST", PLAIN, { body: { score: 1 }, headers: { accept } });
    assert.equal(posted.headers.get("content-type"), "application/json");
    const wishes: Readonly<Record<string, boolean>> = {
      "text/html": true,
      "text/*": true,
      "text/html, application/xhtml+xml, */*": true,
      "TEXT/HTML;Q=0.5, application/json;q=0.4": true,
      "application/json;q=0.9, text/html": true,
      "*/*": false,
      "application/json": false,
      "application/json, text/html;q=0.9": false,
      "application/json, text/html": false,
      "text/html;q=0": false,
      "text/html;q=nonsense, */*": false,
      "image/png": false,
      "": false,
    };
    for (const [accept, html] of Object.entries(wishes)) assert.equal(prefersHtml(accept), html, accept);
    assert.equal(prefersHtml(null), false);
  });

  it("is not recorded for prefetches", async () => {
    await using kit = await feedbackKit();
    const ahead: readonly Readonly<Record<string, string>>[] = [
      { "Sec-Purpose": "prefetch;prerender" },
      { Purpose: "Prefetch" },
      { "X-Moz": "prefetch" },
      { "Sec-Fetch-Dest": "image", "Sec-Fetch-Mode": "no-cors" },
      { "Sec-Fetch-Dest": "iframe", "Sec-Fetch-Mode": "navigate" },
    ];
    for (const headers of ahead) {
      const { status, text } = await ask(kit, "GET", `${PLAIN}?score=1`, { headers });
      assert.deepEqual([status, text], [204, ""]);
      assert.equal((await ask(kit, "GET", `${PLAIN}?score=nonsense`, { headers })).status, 204, "before the syntax");
      assert.equal((await ask(kit, "GET", `${TOKENS}/${UNKNOWN}?score=1`, { headers })).status, 404);
      assert.equal((await ask(kit, "GET", `${TOKENS}/{expired}?score=1`, { headers })).status, 410);
    }
    for (const path of [`${PLAIN}?score=1`, `${TOKENS}/${UNKNOWN}?score=1`]) {
      assert.equal((await ask(kit, "HEAD", path)).status, 204);
      assert.equal((await ask(kit, "OPTIONS", path)).status, 204);
    }
    assert.deepEqual(await records(kit), []);
    const clicked = { "Sec-Fetch-Dest": "document", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-User": "?1" };
    assert.equal((await ask(kit, "GET", `${PLAIN}?score=1`, { headers: clicked })).status, 200, "a link is meant");
    const [headers] = ahead as [Record<string, string>];
    assert.equal((await ask(kit, "POST", PLAIN, { headers, body: { score: 1 } })).status, 200, "POST is meant");
  });
});

describe("the token route", () => {
  it("checks in the documented order, and every page may read each response", async () => {
    await using kit = await feedbackKit();
    const large = { raw: "x".repeat(256 * 1024 + 1) };
    const expired = `${TOKENS}/{expired}`;
    const table: readonly (readonly [method: string, path: string, sent: Sent, status: number])[] = [
      ["PUT", `${TOKENS}/${UNKNOWN}`, large, 405],
      ["PATCH", PLAIN, {}, 405],
      ["DELETE", PLAIN, {}, 405],
      ["POST", `${TOKENS}/${UNKNOWN}`, large, 413],
      ["POST", PLAIN, large, 413],
      ["POST", `${TOKENS}/${UNKNOWN}`, { raw: "{" }, 404],
      ["POST", expired, { raw: "{" }, 410],
      ["GET", `${expired}?score=x`, {}, 410],
      ["POST", PLAIN, { raw: "{" }, 422],
      ["POST", `${TOKENS}/{cat}`, { body: { score: 9, comment: 5 } }, 422],
      ["POST", PLAIN, { raw: `{"score":1,"comment":"c"${" ".repeat(256 * 1024 - 25)}}` }, 200],
      ["OPTIONS", PLAIN, {}, 204],
      ["HEAD", PLAIN, {}, 204],
    ];
    for (const [method, path, request, status] of table) {
      const answer = await ask(kit, method, path, request);
      assert.equal(answer.status, status, `${method} ${path}`);
      assert.equal(answer.headers.get("access-control-allow-origin"), "*");
      assert.equal(answer.headers.get("access-control-allow-credentials"), null);
      assert.equal(answer.headers.get("cache-control"), "no-store");
      if (status === 405) assert.equal(answer.headers.get("allow"), "GET, POST, HEAD, OPTIONS");
    }
    assert.equal((await ask(kit, "POST", `${TOKENS}/{cat}`, { body: { score: 9, comment: 5 } })).loc, "body.comment");
    assert.deepEqual((await ask(kit, "POST", expired)).json, { detail: "Feedback token expired", code: "gone" });
    await kit.clock.advance(3 * 3_600_000);
    assert.equal((await ask(kit, "POST", PLAIN, { raw: "{" })).status, 410, "from the moment it expires");
    assert.equal((await ask(kit, "GET", PLAIN)).status, 410);
  });

  it("reads the body as a stream up to its limit", async () => {
    await using kit = await feedbackKit();
    const post = async (token: string, body: ReadableStream): Promise<number> => {
      const init = { method: "POST", body, duplex: "half" };
      return (await kit.handler(new Request(`http://inside${TOKENS}/${token}`, init as RequestInit))).status;
    };
    const plain = kit.token("plain").split("/").at(-1) as string;
    const stream = (bytes: number): ReadableStream => {
      let bytesLeft = bytes;
      return new ReadableStream<Uint8Array>({
        pull(controller) {
          controller.enqueue(new TextEncoder().encode(bytesLeft === bytes ? '{"score":1' : " ".repeat(1000)));
          bytesLeft -= 1000;
          if (bytesLeft > 0) return;
          controller.enqueue(new TextEncoder().encode("}"));
          controller.close();
        },
      });
    };
    assert.equal(await post(plain, stream(10_000)), 200);
    assert.equal(await post(plain, stream(1e12)), 413);
    // Without a valid token the body is not read, so a request with an endless body gets a response.
    assert.equal(await post(UNKNOWN, new ReadableStream()), 404);
    const expired = kit.token("expired").split("/").at(-1) as string;
    assert.equal(await post(expired, new ReadableStream()), 410);
    assert.equal((await records(kit)).length, 1);
  });

  it("accepts an id in capitals", async () => {
    await using kit = await feedbackKit();
    const id = kit.token("plain").split("/").at(-1) as string;
    assert.equal((await ask(kit, "POST", `${TOKENS}/${id.toUpperCase()}`, { body: { score: 1 } })).status, 200);
  });

  it("reveals nothing about ids that are no tokens", async () => {
    await using kit = await feedbackKit();
    const id = kit.token("plain").split("/").at(-1) as string;
    const response = await errorResponse(new Error("an answer to compare with"));
    assert.equal(response.status, 500);
    const responses = new Set<string>();
    const forge = async (segment: string): Promise<void> => {
      const init = { method: "POST", body: '{"score":1}' };
      const answer = await kit.handler(new Request(`http://inside${TOKENS}/${segment}`, init));
      const headerList = [...answer.headers].filter(([name]) => name !== "x-request-id");
      const headers = headerList.map((pair) => pair.join(": ")).sort();
      responses.add(JSON.stringify([answer.status, headers, await answer.text()]));
    };
    for (const segment of [
      "",
      id.slice(1),
      `${id}0`,
      `${id}/`,
      `${id}/x`,
      `%20${id}`,
      `{${id}}`,
      RUN,
      "%00",
      "stats",
    ]) {
      await forge(segment);
    }
    for (let i = 0; i < 5000; i++) {
      await forge(crypto.randomUUID());
      const at = [...id].map((char, at) => (char === "-" ? -1 : at)).filter((at) => at >= 0);
      const position = at[Math.floor(Math.random() * at.length)] as number;
      const otherDigit = (
        (Number.parseInt(id[position] as string, 16) + 1 + Math.floor(Math.random() * 15)) %
        16
      ).toString(16);
      await forge(`${id.slice(0, position)}${otherDigit}${id.slice(position + 1)}`);
    }
    assert.equal(responses.size, 1, "all answers are the same");
    const [answer] = responses;
    assert.match(answer as string, /^\[404,.*Feedback token not found/);
    assert.deepEqual(await records(kit), []);
  });

  it("accepts a repeated request as the same record", async () => {
    await using kit = await feedbackKit();
    const send = (key: string, body: unknown, token = "plain"): Promise<Answer> =>
      ask(kit, "POST", `${TOKENS}/{${token}}`, { body, headers: { "Idempotency-Key": key } });
    const first = await send("abc", { score: 1, value: { a: 1, b: 2 } });
    const again = await send("abc", { value: { b: 2, a: 1 }, score: 1, comment: null });
    assert.deepEqual(again.json, first.json);
    for (const body of [{ score: 1 }, { score: true, value: { a: 1, b: 2 } }]) {
      const { status, json } = await send("abc", body);
      assert.equal(status, 409);
      assert.equal(typeof (json as { detail: unknown }).detail, "string");
    }
    assert.equal((await send("abc", {})).status, 422, "what is wrong comes first");
    assert.equal((await send("ABC", { score: 1 })).status, 200);
    assert.equal((await send("abc", { score: 1 }, "plain2")).status, 200, "another token");
    assert.equal((await records(kit)).length, 3);
    for (const key of ["with space", "", "k".repeat(256)]) {
      const { status, loc } = await send(key, { score: 1 });
      assert.deepEqual([status, loc], [422, "header.idempotency-key"], key);
    }
    for (let i = 0; i < 98; i++) assert.equal((await ask(kit, "POST", PLAIN, { body: { score: 1 } })).status, 200);
    const full = await ask(kit, "POST", PLAIN, { body: { score: 1 } });
    assert.equal(full.status, 429);
    assert.equal(full.headers.get("access-control-allow-origin"), "*");
    const response = await send("abc", { score: 1, value: { a: 1, b: 2 } });
    assert.deepEqual(response.json, first.json, "before the limit");
    assert.equal((await send("abc", { score: 2 })).status, 409);
    const query = await ask(kit, "GET", `${TOKENS}/{free}?score=1`, { headers: { "Idempotency-Key": "q" } });
    assert.deepEqual(
      (await ask(kit, "GET", `${TOKENS}/{free}?score=1`, { headers: { "Idempotency-Key": "q" } })).json,
      query.json,
    );
  });

  it("hides the error of a failed store, and logs it", async () => {
    await using kit = await feedbackKit();
    kit.storage.getFeedbackToken = () => Promise.reject(new Error("a secret of the store"));
    const { status, json, headers } = await ask(kit, "POST", PLAIN, { body: { score: 1 } });
    assert.deepEqual([status, json], [500, { detail: "Internal server error", code: "internal" }]);
    assert.equal(headers.get("access-control-allow-origin"), "*");
    assert.equal(kit.log.length, 1);
  });
});

describe("the query of feedback routes", () => {
  it("refuses repeated single-valued parameters and unknown values", async () => {
    await using kit = await feedbackKit();
    const table: readonly (readonly [path: string, expected: string])[] = [
      ["/api/v1/feedback?limit=5&limit=6", "422 query.limit"],
      ["/api/v1/feedback?offset=&offset=6", "422 query.offset"],
      ["/api/v1/feedback?has_score=true&has_score=true", "422 query.has_score"],
      ["/api/v1/feedback?min_created_at=2026-01-01&min_created_at=2026-01-02", "422 query.min_created_at"],
      ["/api/v1/feedback?level=run&level=run", "422 query.level"],
      ["/api/v1/feedback?level=", "422 query.level"],
      ["/api/v1/feedback?source=", "422 query.source.0"],
      ["/api/v1/feedback/stats?level=", "422 query.level"],
      ["/api/v1/feedback/tokens?run_id={run}&run_id={run}", "422 query.run_id"],
      [`${PLAIN}?score=1&score=0`, "422 query.score"],
      [`${PLAIN}?comment=a&comment=`, "422 query.comment"],
      ["/api/v1/feedback?run={run}&run={run2}&key=a&key=b&source=api&source=app&user={run}&user={run2}", "200"],
      ["/api/v1/feedback?limit=&has_score=&level=run&min_created_at=", "200"],
    ];
    for (const [path, expected] of table) {
      const { status, loc } = await ask(kit, "GET", path);
      assert.equal(`${status} ${loc ?? ""}`.trim(), expected, path);
    }
    assert.deepEqual(await records(kit), []);
  });

  it("finds tokens and runs by ids in any case", async () => {
    await using kit = await feedbackKit();
    const id = kit.token("plain").split("/").at(-1) as string;
    assert.equal((await ask(kit, "GET", `${TOKENS}/${id.toUpperCase()}?score=1`)).status, 200);
    assert.equal((await kit.feedback.token(id.toUpperCase())).token_id, id);
    const run = RUN.toUpperCase();
    assert.equal(((await ask(kit, "GET", `/api/v1/feedback?run=${run}`)).json as unknown[]).length, 1);
    const listed = (await ask(kit, "GET", `${TOKENS}?run_id=${run}`)).json as unknown[];
    assert.ok(listed.length > 0);
    const page = { limit: 100, offset: 0 };
    assert.deepEqual((await kit.feedback.listTokens(editor, { run_id: run, ...page })).length, listed.length);
    assert.equal((await kit.feedback.list(editor, { run_ids: [run], ...page })).length, 1);
  });
});
