import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ServiceError } from "../../../lib/errors.ts";
import { ASSISTANT, fake, RUN, THREAD } from "./fake-service.ts";

const T = `/threads/${THREAD}`;
const R = `${T}/runs/${RUN}`;
const run = (fields: object): object => ({ assistant_id: "g", ...fields });
const nested = (depth: number): string => `{"metadata":${"[".repeat(depth - 1)}${"]".repeat(depth - 1)}}`;

/** method, path, body, status, part of the detail */
const REFUSED: readonly (readonly [string, string, unknown, number, string])[] = [
  ["POST", "/threads", "{", 400, "JSON"],
  ["POST", "/threads", "{'a':1}", 400, "JSON"],
  ["POST", "/threads", "[]", 422, "body: must be an object"],
  ["POST", "/threads", "null", 422, "body: must be an object"],
  ["POST", "/threads", '"text"', 422, "body: must be an object"],
  ["POST", "/threads", { metadata: [] }, 422, "metadata: must be an object"],
  ["POST", "/threads", { metadata: "x" }, 422, "metadata: must be an object"],
  ["POST", "/threads", '{"metadata":{"a":[{"b":1e400}]}}', 422, "metadata: must not contain numbers beyond"],
  ["POST", "/threads", { thread_id: "x" }, 422, "thread_id: must be a UUID"],
  ["POST", "/threads", { thread_id: 5 }, 422, "thread_id: must be a UUID"],
  ["POST", "/threads", { if_exists: "maybe" }, 422, "if_exists: must be one of raise, do_nothing"],
  ["POST", "/threads/search", { limit: 0 }, 422, "limit: must be between 1 and 1000"],
  ["POST", "/threads/search", { limit: 1001 }, 422, "limit: must be between 1 and 1000"],
  ["POST", "/threads/search", { limit: 1.5 }, 422, "limit: must be an integer"],
  ["POST", "/threads/search", { limit: "10" }, 422, "limit: must be an integer"],
  ["POST", "/threads/search", { offset: -1 }, 422, "offset: must be at least 0"],
  ["POST", "/threads/search", { status: "sleeping" }, 422, "status: must be one of"],
  ["POST", "/threads/search", { ids: ["x"] }, 422, "ids.0: must be a UUID"],
  ["POST", "/threads/search", { ids: THREAD }, 422, "ids: must be a list"],
  ["POST", "/threads/search", { sort_by: "name" }, 422, "sort_by: must be one of"],
  ["POST", "/threads/search", { select: ["secret"] }, 422, "select.0: must be one of"],
  ["POST", "/threads/count", { values: 1 }, 422, "values: must be an object"],
  ["POST", "/assistants", undefined, 422, "graph_id: is required"],
  ["POST", "/assistants", { graph_id: null }, 422, "graph_id: is required"],
  ["POST", "/assistants", { graph_id: 1 }, 422, "graph_id: must be a string"],
  ["POST", "/assistants", { graph_id: "" }, 422, "graph_id: must not be empty"],
  ["POST", "/assistants", { graph_id: "g", name: "a\0b" }, 422, "name: must not contain U+0000"],
  ["POST", "/assistants", '{"graph_id":"g","description":"\\ud800"}', 422, "description: must not contain"],
  [
    "POST",
    "/assistants",
    { graph_id: "g", config: { recursion_limit: "x" } },
    422,
    "config.recursion_limit: must be an integer",
  ],
  ["POST", "/assistants", { graph_id: "g", config: { tags: [1] } }, 422, "config.tags.0: must be a string"],
  [
    "POST",
    "/assistants",
    { graph_id: "g", config: { configurable: [] } },
    422,
    "config.configurable: must be an object",
  ],
  ["POST", "/assistants", { graph_id: "g", config: [] }, 422, "config: must be an object"],
  ["POST", "/assistants/search", { limit: 1001 }, 422, "limit"],
  ["POST", "/assistants/search", { select: ["nothing"] }, 422, "select.0"],
  ["POST", `/assistants/${ASSISTANT}/latest`, undefined, 422, "version: is required"],
  ["POST", `/assistants/${ASSISTANT}/latest`, { version: 0 }, 422, "version: must be at least 1"],
  ["POST", `/assistants/${ASSISTANT}/latest?version=x`, undefined, 422, "version: must be an integer"],
  ["GET", `/assistants/${ASSISTANT}/graph?xray=maybe`, undefined, 422, "xray"],
  ["GET", `/assistants/${ASSISTANT}/subgraphs?recurse=maybe`, undefined, 422, "recurse: must be true or false"],
  ["GET", "/assistants/a%2Fb", undefined, 422, "assistant_id"],
  ["GET", "/assistants/a%5Cb", undefined, 422, "assistant_id"],
  ["GET", "/assistants/a%00", undefined, 422, "assistant_id"],
  ["GET", "/assistants/%ff", undefined, 422, "assistant_id"],
  ["GET", `${T}/state/..%2F..`, undefined, 422, "checkpoint_id"],
  ["GET", "/threads/x", undefined, 422, "thread_id: must be a UUID"],
  ["PATCH", "/threads/x", {}, 422, "thread_id: must be a UUID"],
  ["DELETE", "/threads/x", undefined, 422, "thread_id: must be a UUID"],
  ["GET", "/threads/x/state", undefined, 422, "thread_id: must be a UUID"],
  ["GET", `${T}/history?limit=0`, undefined, 422, "limit: must be between"],
  ["GET", `${T}/history?limit=ten`, undefined, 422, "limit: must be an integer"],
  ["POST", `${T}/history`, { before: 5 }, 422, "before: must be a checkpoint id"],
  ["POST", `${T}/history`, { before: {} }, 422, "before"],
  ["POST", `${T}/history`, { checkpoint: { checkpoint_id: "a\0" } }, 422, "checkpoint.checkpoint_id: must not contain"],
  ["POST", `${T}/history`, { select: ["secret"] }, 422, "select.0: must be a field of a state or values.<key>"],
  ["POST", `${T}/history`, { select: "values" }, 422, "select: must be a list"],
  ["GET", `${T}/state?select=values,secret`, undefined, 422, "select.1: must be a field of a state"],
  ["POST", `${T}/state/checkpoint`, {}, 422, "checkpoint: is required"],
  ["POST", `${T}/state/checkpoint`, { checkpoint: "x" }, 422, "checkpoint: must be an object"],
  ["POST", `${T}/runs`, {}, 422, "assistant_id: is required"],
  ["POST", `${T}/runs`, { assistant_id: "a\0b" }, 422, "assistant_id: must not contain"],
  ["POST", "/threads/x/runs", run({}), 422, "thread_id"],
  ["POST", "/threads/x/runs/stream", run({}), 422, "thread_id"],
  ["POST", "/runs", run({ stream_mode: "all" }), 422, "stream_mode: must be one of"],
  ["POST", "/runs", run({ stream_mode: ["values", "all"] }), 422, "stream_mode"],
  ["POST", "/runs", run({ stream_subgraphs: "yes" }), 422, "stream_subgraphs: must be true or false"],
  ["POST", "/runs", run({ multitask_strategy: "steal" }), 422, "multitask_strategy: must be one of"],
  ["POST", "/runs", run({ if_not_exists: "raise" }), 422, "if_not_exists: must be one of"],
  ["POST", "/runs", run({ on_disconnect: "stop" }), 422, "on_disconnect: must be one of"],
  ["POST", "/runs", run({ after_seconds: -1 }), 422, "after_seconds: must be at least 0"],
  ["POST", "/runs", '{"assistant_id":"g","after_seconds":1e999}', 422, "after_seconds: must be finite"],
  ["POST", "/runs", '{"assistant_id":"g","input":-1e999}', 422, "input: must not contain numbers beyond"],
  ["POST", "/runs", '{"assistant_id":"g","command":{"resume":[1e999]}}', 422, "command: must not contain numbers"],
  ["POST", "/runs", run({ after_seconds: "5" }), 422, "after_seconds: must be a number"],
  ["POST", "/runs", run({ interrupt_before: "all" }), 422, 'interrupt_before: must be "*"'],
  ["POST", "/runs", run({ interrupt_after: [1] }), 422, "interrupt_after"],
  ["POST", "/runs", run({ durability: "never" }), 422, "durability: must be one of"],
  ["POST", "/runs", run({ checkpoint_during: 1 }), 422, "checkpoint_during: must be true or false"],
  ["POST", "/runs", run({ webhook: 5 }), 422, "webhook: must be a string"],
  ["POST", "/runs", run({ feedback_keys: 5 }), 422, "feedback_keys: must be a list"],
  ["POST", "/runs", run({ feedback_keys: [5] }), 422, "feedback_keys"],
  ["POST", "/runs", run({ command: "go" }), 422, "command: must be an object"],
  ["POST", "/runs", run({ command: { goto: 5 } }), 422, "command.goto: must be"],
  ["POST", "/runs", run({ command: { goto: [{ input: 1 }] } }), 422, "command.goto"],
  ["POST", "/runs", run({ command: { update: "x" } }), 422, "command.update: must be"],
  ...["/runs", "/runs/wait", "/runs/stream", `${T}/runs`, `${T}/runs/wait`, `${T}/runs/stream`].flatMap((path) =>
    [[["a"]], [[]], [["a", 1, 2]], [["a", 1], ["b"]], [[1, 2]], [["", 1]], ["a", 1], 3].map(
      (update) =>
        ["POST", path, run({ command: { update } }), 422, "command.update: must be an object or a list"] as const,
    ),
  ),
  ["POST", "/runs/batch", [run({}), run({ command: { update: [["a"]] } })], 422, "1.command.update: must be an object"],
  ["POST", "/runs", run({ config: { recursion_limit: 0 } }), 422, "config.recursion_limit: must be at least 1"],
  ["POST", "/runs", run({ context: [] }), 422, "context: must be an object"],
  ["POST", "/runs", run({ checkpoint: { checkpoint_ns: 5 } }), 422, "checkpoint.checkpoint_ns: must be a string"],
  ["GET", `${T}/runs?limit=1001`, undefined, 422, "limit"],
  ["GET", `${T}/runs?status=done`, undefined, 422, "status: must be one of"],
  ["GET", `${T}/runs?select=run_id,secret`, undefined, 422, "select.1"],
  ["GET", `${T}/runs/x`, undefined, 422, "run_id: must be a UUID"],
  ["GET", "/runs/x/stream", undefined, 422, "run_id: must be a UUID"],
  ["GET", `${R}/stream?stream_mode=all`, undefined, 422, "stream_mode.0: must be one of"],
  ["GET", `${R}/join?cancel_on_disconnect=maybe`, undefined, 422, "cancel_on_disconnect: must be true or false"],
  ["POST", "/runs/batch", [], 422, "body: must be a list with at least one item"],
  ["POST", "/runs/batch", undefined, 422, "body: must be a list"],
  ["POST", "/runs/batch", {}, 422, "body: must be a list"],
  ["POST", "/runs/batch", "[", 400, "JSON"],
  ["POST", "/runs/batch", [run({}), 5], 422, "1: must be an object"],
  ["POST", "/runs/batch", [run({}), {}], 422, "1.assistant_id: is required"],
  ["POST", "/runs/batch", [run({ after_seconds: -1 })], 422, "0.after_seconds: must be at least 0"],
  ["POST", "/runs/batch", '[{"assistant_id":"g","input":1e999}]', 422, "0.input: must not contain numbers beyond"],
  ["POST", "/runs/cancel", undefined, 422, "status: is required, or thread_id and run_ids"],
  ["POST", "/runs/cancel", { thread_id: THREAD }, 422, "status: is required, or thread_id and run_ids"],
  ["POST", "/runs/cancel", { run_ids: [RUN] }, 422, "status: is required, or thread_id and run_ids"],
  ["POST", "/runs/cancel", { status: "all", run_ids: [RUN] }, 422, "status: not together with"],
  ["POST", "/runs/cancel", { status: "all", thread_id: THREAD, run_ids: [RUN] }, 422, "status: not together with"],
  ["POST", "/runs/cancel", { thread_id: THREAD, run_ids: [] }, 422, "run_ids: must name a run"],
  ["POST", "/runs/cancel", { thread_id: THREAD, run_ids: ["x"] }, 422, "run_ids.0: must be a UUID"],
  ["POST", "/runs/cancel", { thread_id: THREAD, run_ids: Array(1001).fill(RUN) }, 422, "run_ids: must name at most"],
  ["POST", "/runs/cancel", { thread_id: "x", run_ids: [RUN] }, 422, "thread_id: must be a UUID"],
  ["POST", "/runs/cancel", { status: "success" }, 422, "status: must be one of pending, running, all"],
  ["POST", "/runs/cancel?action=stop", { status: "all" }, 422, "action: must be one of interrupt, rollback"],
  ["POST", `${R}/cancel?action=stop`, undefined, 422, "action: must be one of interrupt, rollback"],
  ["POST", `${R}/cancel?wait=maybe`, undefined, 422, "wait: must be true or false"],
  ["POST", `${T}/runs/x/cancel`, undefined, 422, "run_id: must be a UUID"],
  ["GET", `${T}/stream?stream_mode=values`, undefined, 422, "stream_mode.0: must be one of run_modes"],
  ["GET", `${T}/stream?stream_modes=lifecycle,all`, undefined, 422, "stream_modes.1: must be one of run_modes"],
  ["GET", "/threads/x/stream", undefined, 422, "thread_id: must be a UUID"],
  ["GET", "/metrics?format=xml", undefined, 422, "format: must be one of prometheus, json"],
  ["GET", "/nothing", undefined, 404, "nothing"],
  ["GET", "/assistantsx", undefined, 404, "nothing"],
  ["GET", "/openapiXjson", undefined, 404, "nothing"],
];

const NOT_BUILT: readonly (readonly [string, string])[] = [["POST", "/ui/g"]];

async function detail(response: Response): Promise<string> {
  assert.equal(response.headers.get("content-type"), "application/json");
  const body = (await response.json()) as { detail: string };
  assert.deepEqual(Object.keys(body), ["detail", "code"]);
  return body.detail;
}

describe("invalid input", () => {
  for (const [method, path, body, status, piece] of REFUSED) {
    const bodyText = typeof body === "string" ? body : JSON.stringify(body);
    it(`${method} ${path} ${bodyText?.slice(0, 70) ?? ""} → ${status}`, async () => {
      const { send, calls } = fake();
      const response = await send(method, path, body);
      const text = await detail(response);
      assert.equal(response.status, status, text);
      assert.ok(text.includes(piece), text);
      assert.deepEqual(calls, []);
    });
  }

  it("that is nested deeper than 64 levels is refused before it is parsed", async () => {
    const { send, calls } = fake();
    assert.equal((await send("POST", "/threads", `{"metadata":{"a":${nested(62)}}}`)).status, 200);
    assert.equal(calls.length, 1);
    const refused = await send("POST", "/threads", nested(65));
    assert.deepEqual([refused.status, await detail(refused)], [422, "body: must not nest deeper than 64 levels"]);
    assert.equal((await send("POST", "/threads", "[".repeat(1_000_000))).status, 422);
    const text = '{"metadata":{"a":"[[[[\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["}}';
    assert.equal((await send("POST", "/threads", text)).status, 200);
  });

  it("above 10 MiB is refused by its declared and by its counted length", async () => {
    const { handler, calls } = fake();
    const chunk = new Uint8Array(1024 * 1024).fill(32);
    let chunks = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        chunks++;
        controller.enqueue(chunk);
      },
    });
    const streamed = new Request("http://x/threads", { method: "POST", body, duplex: "half" } as RequestInit);
    assert.equal((await handler(streamed)).status, 413);
    assert.ok(chunks < 20, `read ${chunks} MiB`);
    const length = String(8 * 1024 * 1024 + 1);
    const declared = new Request("http://x/threads", {
      method: "POST",
      body: "{}",
      headers: { "content-length": length },
    });
    assert.equal((await handler(declared)).status, 413);
    const understated = new Request("http://x/threads", {
      method: "POST",
      body: " ".repeat(8 * 1024 * 1024 + 1),
      headers: { "content-length": "2" },
    });
    assert.equal((await handler(understated)).status, 413);
    assert.deepEqual(calls, []);
  });

  it("that is not UTF-8 is refused", async () => {
    const body = new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]);
    const response = await fake().handler(new Request("http://x/threads", { method: "POST", body }));
    assert.equal(response.status, 400);
  });

  it("in Last-Event-ID is refused", async () => {
    for (const eventId of ["abc", "1-2", "-2", "1.5", "0x1", "99999999999999999999"]) {
      const response = await fake().send("GET", `${R}/stream`, undefined, { "last-event-id": eventId });
      assert.deepEqual([response.status, await detail(response)], [422, "Last-Event-ID: must be an integer"]);
    }
    for (const idempotencyKey of [
      "abc",
      "7",
      "1-2",
      "1-2-",
      "-1-2-3",
      "1-2-3-4",
      "1-99999999999999999999-3",
      "1-2-9999999999999999",
    ]) {
      const response = await fake().send("GET", `${T}/stream`, undefined, { "last-event-id": idempotencyKey });
      assert.equal(response.status, 422);
      assert.match(await detail(response), /^Last-Event-ID: must be an id of this stream/);
    }
  });

  it("in Idempotency-Key is refused", async () => {
    for (const path of ["/runs", "/runs/batch", `${T}/runs/wait`]) {
      const body = path === "/runs/batch" ? [run({})] : run({});
      for (const idempotencyKey of ["", "two words", "\u00fc", "x".repeat(256)]) {
        const { send, calls } = fake();
        const response = await send("POST", path, body, { "idempotency-key": idempotencyKey });
        assert.equal(response.status, 422);
        assert.equal(await detail(response), "Idempotency-Key: must be 1 to 255 visible ASCII characters");
        assert.deepEqual(calls, []);
      }
    }
  });
});

describe("the query of GET /api/v1/workspaces", () => {
  for (const [query, field] of [
    ["limit=0", "limit"],
    ["limit=1001", "limit"],
    ["limit=x", "limit"],
    ["offset=-1", "offset"],
  ] as const) {
    it(`${query} is refused in the format of the platform`, async () => {
      const response = await fake().send("GET", `/api/v1/workspaces?${query}`);
      assert.equal(response.status, 422);
      const { detail } = (await response.json()) as { detail: { loc: unknown; type: string }[] };
      assert.deepEqual(
        detail.map(({ loc, type }) => [loc, type]),
        [[["query", field], "value_error"]],
      );
    });
  }
});

describe("unsupported routes", () => {
  for (const [method, path] of NOT_BUILT) {
    it(`${method} ${path} → 501`, async () => {
      const response = await fake().send(method, path, ["GET", "DELETE"].includes(method) ? undefined : {});
      assert.equal(response.status, 501);
      assert.match(await detail(response), /not built yet/);
    });
  }
});

describe("errors of the service", () => {
  for (const [code, status] of [
    ["unavailable", 503],
    ["storage_full", 507],
    ["conflict", 409],
    ["not_found", 404],
  ] as const) {
    it(`${code} → ${status}`, async () => {
      const refuse = (): never => {
        throw new ServiceError(code, "Not now");
      };
      const { send, log } = fake({
        answers: { "runs.create": refuse, "runs.cancel": refuse, "runs.cancelMany": refuse },
      });
      for (const [path, body] of [
        ["/runs", run({})],
        [`${R}/cancel`, undefined],
        ["/runs/cancel", { status: "all" }],
      ] as const) {
        const response = await send("POST", path, body);
        assert.deepEqual([response.status, await detail(response)], [status, "Not now"]);
      }
      assert.deepEqual(log, []);
    });
  }
});

describe("a wrong method", () => {
  for (const [method, path, allow] of [
    ["PUT", "/threads", "POST"],
    ["GET", "/threads", "POST"],
    ["DELETE", "/ok", "GET, HEAD"],
    ["POST", T, "GET, PATCH, DELETE, HEAD"],
    ["HEAD", "/runs", "POST"],
    ["PUT", `${R}/join`, "GET, HEAD"],
    ["GET", `${R}/cancel`, "POST"],
    ["POST", "/ready", "GET, HEAD"],
  ] as const) {
    it(`${method} ${path} → 405`, async () => {
      const response = await fake().send(method, path);
      assert.deepEqual([response.status, response.headers.get("allow")], [405, allow]);
    });
  }
});
