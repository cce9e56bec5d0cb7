import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { testService } from "../../suite/kit.ts";
import { ASSISTANT, fake, METRICS, notFound, RUN, THREAD } from "./fake-service.ts";

const T = `/threads/${THREAD}`;
const R = `${T}/runs/${RUN}`;
const A = `/assistants/${ASSISTANT}`;

describe("responses", () => {
  it("contain the paths of the run relative to the mount", async () => {
    for (const prefix of ["", "/agents"]) {
      const { send, result } = fake({ prefix });
      result.resolve({});
      const headers = async (method: string, path: string): Promise<(string | null)[]> => {
        const body = method === "POST" ? { assistant_id: "g" } : undefined;
        const response = await send(method, `${prefix}${path}`, body);
        assert.equal(response.status, 200);
        await response.body?.cancel();
        return [response.headers.get("content-location"), response.headers.get("location")];
      };
      assert.deepEqual(await headers("POST", `${T}/runs`), [R, null]);
      assert.deepEqual(await headers("POST", `${T}/runs/stream`), [R, `${R}/stream`]);
      assert.deepEqual(await headers("POST", `${T}/runs/wait`), [R, `${R}/join`]);
      assert.deepEqual(await headers("POST", "/runs"), [`/runs/${RUN}`, null]);
      assert.deepEqual(await headers("POST", "/runs/stream"), [`/runs/${RUN}`, `/runs/${RUN}/stream`]);
      assert.deepEqual(await headers("POST", "/runs/wait"), [`/runs/${RUN}`, null]);
      assert.deepEqual(await headers("GET", `${R}/stream`), [null, `${R}/stream`]);
      assert.deepEqual(await headers("GET", `/runs/${RUN}/stream`), [null, `/runs/${RUN}/stream`]);
    }
  });

  it("have pages of searches with headers for the next one", async () => {
    const { send } = fake();
    const assistants = await send("POST", "/assistants/search", {});
    assert.deepEqual(
      [assistants.headers.get("x-pagination-total"), assistants.headers.get("x-pagination-next")],
      ["7", "1"],
    );
    const threads = await send("POST", "/threads/search", {});
    assert.deepEqual(
      [threads.headers.get("x-pagination-total"), threads.headers.get("x-pagination-next")],
      ["1", null],
    );
  });

  it("contain only the selected members", async () => {
    const { send } = fake();
    const assistants = await send("POST", "/assistants/search", { select: ["version", "name"] });
    assert.deepEqual(await assistants.json(), [{ name: "one", version: 3 }]);
    const runs = await send("GET", `${T}/runs?select=["run_id"]`);
    assert.deepEqual(await runs.json(), [{ run_id: RUN }]);
  });

  it("contain the selected members of a state, and single values", async () => {
    const state = { values: { a: 1, "b.c": 2, ["__proto__"]: 3 }, next: [], tasks: [], metadata: { step: 1 } };
    const get = (): unknown => state;
    const { send } = fake({
      answers: { "threads.state": get, "threads.stateAt": get, "threads.history": () => [state] },
    });
    const read = async (method: string, path: string, body?: unknown): Promise<unknown> =>
      (await send(method, T + path, body)).json();
    assert.deepEqual(await read("GET", "/state"), JSON.parse(JSON.stringify(state)));
    assert.deepEqual(await read("GET", "/state?select=next&select=metadata"), { next: [], metadata: { step: 1 } });
    assert.deepEqual(await read("GET", "/state?select=next,values.b.c"), { next: [], values: { "b.c": 2 } });
    assert.deepEqual(await read("GET", '/state/c?select=["values.a","values"]'), { values: state.values });
    assert.deepEqual(await read("GET", "/history?select=values.nothing"), [{ values: {} }]);
    assert.deepEqual(await read("POST", "/history", { select: ["next"] }), [{ next: [] }]);
    const checkpoint = { checkpoint_id: "c" };
    assert.deepEqual(await read("POST", "/state/checkpoint", { checkpoint, select: ["tasks"] }), { tasks: [] });
  });

  it("are 204 without content", async () => {
    const { send } = fake();
    for (const [method, path, headers] of [
      ["DELETE", T],
      ["DELETE", R],
      ["DELETE", A],
      ["PATCH", T, { prefer: "return=minimal" }],
    ] as const) {
      const response = await send(method, path, undefined, headers);
      assert.deepEqual([response.status, await response.text()], [204, ""]);
    }
  });

  it("to a cancel are 204 after the end and 202 before it", async () => {
    for (const [query, status] of [
      ["", 202],
      ["?wait=0", 202],
      ["?wait=1", 204],
    ] as const) {
      const response = await fake().send("POST", `${R}/cancel${query}`);
      assert.deepEqual([response.status, await response.text()], [status, ""]);
    }
    const many = await fake().send("POST", "/runs/cancel", { status: "pending" });
    assert.deepEqual([many.status, await many.text()], [204, ""]);
  });

  it("to a batch contain its runs in order", async () => {
    const batch = (requests: unknown): unknown =>
      (requests as { input: number }[]).map(({ input }) => ({ run_id: RUN, input }));
    const { send } = fake({ answers: { "runs.createBatch": batch } });
    const response = await send(
      "POST",
      "/runs/batch",
      [1, 2, 3].map((input) => ({ assistant_id: "g", input })),
    );
    assert.deepEqual(
      await response.json(),
      [1, 2, 3].map((input) => ({ run_id: RUN, input })),
    );
  });

  it("stream a thread with ids of two parts", async () => {
    const service = fake();
    const response = await service.send("GET", `${T}/stream`);
    assert.deepEqual(
      [response.status, response.headers.get("content-type"), response.headers.get("location")],
      [200, "text/event-stream", `${T}/stream`],
    );
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    service.runLog.add({ id: "3-7", event: "values", data: "{}" });
    assert.equal(new TextDecoder().decode((await reader.read()).value), "id: 3-7\nevent: values\ndata: {}\n\n");
    await reader.cancel();
    assert.equal(service.runLog.leaveCount, 1);
  });

  it("to a count are a bare integer", async () => {
    assert.equal(await (await fake().send("POST", "/assistants/count", {})).text(), "7");
  });

  it("describe the server in /info", async () => {
    const services = { worker: { ok: true }, database: { ok: true } };
    assert.deepEqual(await (await fake().send("GET", "/ok")).json(), { ok: true, services });
    const ill = await fake({ healthy: false }).send("GET", "/ok");
    assert.equal(ill.status, 503);
    const { ok, services: parts } = (await ill.json()) as { ok: boolean; services: unknown };
    assert.deepEqual([ok, parts], [false, { ...services, worker: { ok: false } }]);
    assert.deepEqual(await (await fake().send("GET", "/ready")).json(), { ok: true });
    const busy = await fake({ ready: { ok: false, detail: "The server is stopping" } }).send("GET", "/ready");
    assert.deepEqual([busy.status, await busy.json()], [503, { ok: false, detail: "The server is stopping" }]);
    assert.equal(((await (await fake().send("GET", "/info")).json()) as { version: string }).version, "9.9.9");
  });

  it("name the supported versions in /info", async () => {
    const text = readFileSync(new URL("../../../package.json", import.meta.url), "utf8");
    const { version } = JSON.parse(text) as { readonly version: string };
    await using kit = await testService({ agents: { agent: () => ({}) } });
    assert.deepEqual(await (await kit.fetch("http://greenroom/info")).json(), {
      version,
      api_version: "0.5.36",
      flags: {
        assistants: true,
        crons: true,
        langsmith: false,
        langsmith_tracing_replicas: false,
        stream_namespaces: true,
        event_streaming: true,
      },
    });
  });

  it("have metrics as text for Prometheus or as JSON", async () => {
    const service = fake();
    const open = [await service.send("GET", `${R}/stream`), await service.send("GET", `${R}/join`)];
    const text = await service.send("GET", "/metrics");
    assert.equal(text.headers.get("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    const lines = (await text.text()).split("\n");
    assert.equal(lines.pop(), "");
    for (const line of [
      "# TYPE greenroom_runs gauge",
      'greenroom_runs{status="pending"} 3',
      'greenroom_runs{status="scheduled"} 2',
      'greenroom_runs{status="running"} 1',
      "greenroom_oldest_pending_seconds 0.75",
      "# TYPE greenroom_runs_ended_total counter",
      'greenroom_runs_ended_total{status="interrupted"} 1',
      "greenroom_runs_started_total 8",
      "greenroom_runs_retried_total 2",
      "greenroom_leases_lost_total 1",
      "greenroom_frames_shown_total 70",
      "greenroom_frames_stored_total 60",
      "greenroom_open_streams 2",
      "greenroom_standby 1",
      "greenroom_draining 0",
      "greenroom_uptime_seconds 12.5",
    ]) {
      assert.ok(lines.includes(line), line);
    }
    const label = String.raw`[a-z]+="(?:[^"\\\n]|\\["\\n])*"`;
    const sample = new RegExp(`^greenroom_[a-z_]+(\\{${label}(,${label})*\\})? \\d+(\\.\\d+)?$`);
    for (const line of lines)
      assert.match(line, line.startsWith("#") ? /^# (HELP|TYPE) greenroom_[a-z_]+ .+$/ : sample);
    const json = await service.send("GET", "/metrics?format=json");
    assert.deepEqual(await json.json(), { ...METRICS, open_streams: 2 });
    for (const { body } of open) await body?.cancel();
    assert.match(await (await service.send("GET", "/metrics?format=prometheus")).text(), /^greenroom_open_streams 0$/m);
  });

  it("leave the mount and what is below /studio to the studio, with the path below the mount", async () => {
    const studio = (_: Request, path: string): Response => new Response(path);
    for (const prefix of ["", "/agents"]) {
      const { send } = fake({ studio, prefix });
      for (const path of ["/", "/studio", "/studio/", "/studio/threads/1", "/studio/app.js"])
        assert.equal(await (await send("GET", `${prefix}${path}`)).text(), path);
      assert.equal((await send("GET", `${prefix}/studios`)).status, 404);
      assert.equal((await send("POST", `${prefix}/studio/x`)).status, 405);
    }
    assert.equal((await fake().send("GET", "/studio/")).status, 404);
  });

  it("have the request id of the client if it is valid, or a new one", async () => {
    const { send } = fake();
    const id = async (requestId?: string): Promise<string | null> =>
      (await send("GET", "/ok", undefined, requestId === undefined ? {} : { "x-request-id": requestId })).headers.get(
        "x-request-id",
      );
    assert.equal(await id("abc-123"), "abc-123");
    assert.equal(await id(), "id-1");
    assert.equal(await id('a"b<c>'), "id-2");
    assert.equal(await id("x".repeat(129)), "id-3");
  });

  it("to HEAD equal those to GET without the body", async () => {
    const { send, calls, leaves } = fake();
    const response = await send("HEAD", T);
    assert.deepEqual(
      [response.status, response.headers.get("content-type"), await response.text()],
      [200, "application/json", ""],
    );
    assert.equal((await send("HEAD", "/nothing")).status, 404);
    const joined = await send("HEAD", `${R}/join?cancel_on_disconnect=1`);
    assert.equal(joined.status, 200);
    assert.deepEqual(calls.at(-1), ["runs.join", THREAD, RUN, { cancel_on_disconnect: false }]);
    assert.equal(leaves(), 1);
    for (const path of ["/ok", "/ready", "/metrics", "/info", "/openapi.json", `${R}/stream`, `${T}/stream`]) {
      const answer = await send("HEAD", path);
      assert.deepEqual([path, answer.status, await answer.text()], [path, 200, ""]);
    }
    assert.deepEqual(calls.at(-1), ["threads.stream", THREAD, { modes: [], after: undefined }]);
  });

  it("hide unexpected errors, and log them", async () => {
    const { send, log } = fake({
      answers: {
        "threads.get": () => {
          throw new Error("password of the database");
        },
      },
    });
    const response = await send("GET", T);
    assert.deepEqual(
      [response.status, await response.json()],
      [500, { detail: "Internal server error", code: "internal" }],
    );
    assert.equal(response.headers.get("x-request-id"), log[0]?.request_id);
    assert.equal((log[0]!.error as Error).message, "password of the database");
  });

  it("contain the service's own errors", async () => {
    const response = await fake({ answers: { "threads.get": notFound } }).send("GET", T);
    assert.deepEqual(
      [response.status, await response.json()],
      [404, { detail: "Thread not found", code: "not_found" }],
    );
    assert.equal(response.headers.get("content-type"), "application/json");
  });
});
