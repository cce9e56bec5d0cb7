import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { Client } from "@langchain/langgraph-sdk";
import { Webhook } from "standardwebhooks";
import { serve } from "../../adapters/node/mod.ts";
import { nodeSqlite } from "../../adapters/sqlite/node.ts";
import { createHandler, type Handler } from "../../lib/http/handler.ts";
import { createService, fromFunctions, type ServiceOptions, staticIdentity } from "../../lib/mod.ts";
import { createTemporaryFolder, type Program, root, runtime, start } from "../support/programs.ts";

const input = { messages: [{ role: "user", content: "Hello" }] };
const last = (values: unknown): unknown => (values as { messages: { content: unknown }[] }).messages.at(-1)?.content;
const example = (name: string, cwd: string, args: readonly string[] = []): Program =>
  start(`examples/${name}`, args, { cwd, env: { PORT: "0" } });
const readUrl = async (program: Program): Promise<string> =>
  (await program.printed(/listening on (http:\/\/\S+)/i))[1] as string;
const serveDemo = (cwd: string): Program =>
  start("server.ts", ["--config", join(root, "examples/demo/greenroom.json"), "--port", "0"], { cwd });

/** Starts an example that exports a handler, on its own port. */
const served = (name: string, cwd: string, env: Readonly<Record<string, string>> = {}): Program =>
  start("test/e2e/serve-example.ts", [name], { cwd, env });

interface Served extends AsyncDisposable {
  readonly url: string;
}

async function serving(handler: Handler, end: () => Promise<void> = async () => {}): Promise<Served> {
  const listener = await serve(handler, { hostname: "127.0.0.1", port: 0 });
  return {
    url: `http://127.0.0.1:${listener.port}`,
    async [Symbol.asyncDispose]() {
      // What waits in an idle connection is not waited for.
      void listener.close().catch(() => {});
      await end();
    },
  };
}

/** A server in this process, with an agent that answers at once. */
async function serveHere(options: Partial<ServiceOptions> = {}): Promise<Served> {
  const executor = fromFunctions({
    async *echo({ messages }) {
      yield `Message ${messages.length}`;
    },
  });
  const service = await createService({ storage: nodeSqlite(":memory:"), executor, ...options });
  return await serving(createHandler(service), () => service.stop(0));
}

/** As much of an element as the script of an example uses. */
interface FakeElement {
  textContent: string;
  hidden: boolean;
  readonly value: string;
  onsubmit?(event: object): Promise<void>;
  onclick?(event: object): Promise<void>;
  querySelector(at: string): FakeElement;
}

/** Creates elements by selector on first use. */
function fakeDocument(): Pick<FakeElement, "querySelector"> {
  const elements = new Map<string, FakeElement>();
  const querySelector = (at: string): FakeElement => {
    const element = elements.get(at) ?? { textContent: "", hidden: at === "#thumbs", value: "Hello", querySelector };
    elements.set(at, element);
    return element;
  };
  return { querySelector };
}

describe("examples", () => {
  it("have under 40 lines each", () => {
    for (const file of readdirSync(join(root, "examples"), { recursive: true, encoding: "utf8" })) {
      if (!/\.(?:ts|html)$/.test(file)) continue;
      const lines = readFileSync(join(root, "examples", file), "utf8").split("\n").length - 1;
      assert.ok(lines < 40, `${file} has ${lines} lines`);
    }
  });

  it("mcp.ts calls an agent of another server as a tool", async () => {
    using folder = createTemporaryFolder();
    await using program = example("mcp.ts", folder.path);
    assert.equal(await program.ended, 0);
    assert.match(program.output(), /^The other agent says: Three books about cooking$/m);
    assert.match(program.output(), /librarian by mcp: success/);
  });

  it("a2a.ts calls an agent of another server, and answers its interrupt", async () => {
    using folder = createTemporaryFolder();
    await using program = example("a2a.ts", folder.path);
    assert.equal(await program.ended, 0);
    assert.match(program.output(), /^The guide says: Three walks in Rome$/m);
  });

  it(`the smallest service on ${runtime} keeps a conversation`, async () => {
    using folder = createTemporaryFolder();
    const name = { bun: "echo.ts", deno: "deno.ts", node: "node.ts" }[runtime];
    let thread_id: string;
    {
      await using program = example(name, folder.path);
      const client = new Client({ apiUrl: await readUrl(program) });
      ({ thread_id } = await client.threads.create());
      assert.match(String(last(await client.runs.wait(thread_id, "echo", { input }))), /You sent .*Hello/);
    }
    await using program = example(name, folder.path);
    const client = new Client({ apiUrl: await readUrl(program) });
    const events: string[] = [];
    for await (const { event } of client.runs.stream(thread_id, "echo", { input, streamMode: "updates" }))
      events.push(event);
    assert.ok(events.includes("updates"), events.join());
    assert.equal(((await client.threads.getState(thread_id)).values as typeof input).messages.length, 4);
  });

  it("app.ts serves an agent, and exits on SIGTERM", async () => {
    using folder = createTemporaryFolder();
    await using program = example("app.ts", folder.path);
    const client = new Client({ apiUrl: await readUrl(program) });
    assert.equal(last(await client.runs.wait(null, "echo", { input })), "You said Hello");
    assert.equal(await program.kill("SIGTERM"), 0);
  });

  it("refund.ts continues after a kill with the same idempotency key, and prints its result at each later start", async () => {
    using folder = createTemporaryFolder();
    let paid = "";
    {
      await using first = example("refund.ts", folder.path);
      [paid] = await first.printed(/Paid 40 with the key \S+/);
    }
    assert.notEqual(paid, "");
    for (const start of ["after the kill", "after the end"]) {
      await using program = example("refund.ts", folder.path);
      const url = await readUrl(program);
      const [, values = ""] = await program.printed(/Result: (.*)/);
      assert.equal(last(JSON.parse(values)), "Shipped as RX-7.", start);
      // A kill between the work and its commit repeats the work, with its key.
      const again = program.output().match(/Paid .*/g) ?? [];
      assert.deepEqual(again, start === "after the end" ? [] : again.map(() => paid), start);
      const threads = await new Client({ apiUrl: url }).threads.search();
      assert.deepEqual([threads.length, threads[0]?.status], [1, "idle"], start);
    }
  });

  if (runtime === "bun") {
    it("mount.ts serves agents behind the host's own authentication", async () => {
      using folder = createTemporaryFolder();
      await using program = example("mount.ts", folder.path);
      const url = await readUrl(program);
      assert.equal(await (await fetch(url)).text(), "The application's own page");
      assert.equal((await fetch(`${url}/agents/ok`)).status, 401);
      const client = new Client({ apiUrl: `${url}/agents`, defaultHeaders: { authorization: "Bearer let-me-in" } });
      assert.equal(last(await client.runs.wait(null, "greeter", { input })), "You have written 1 messages so far.");
      assert.equal(await program.kill("SIGTERM"), 0);
    });
  }

  it("agent.test.ts tests an agent in memory", async () => {
    const args = { bun: ["test"], deno: ["test", "-A", "--no-check"], node: ["--test"] }[runtime];
    await using program = start("examples/agent.test.ts", [], { cwd: root, command: args });
    assert.equal(await program.ended, 0, program.output());
    assert.match(program.output(), /\b1 pass|\bpass 1/);
  });

  it("sdk.ts calls the demo", async () => {
    using folder = createTemporaryFolder();
    await using server = serveDemo(folder.path);
    await using program = example("sdk.ts", folder.path, [await readUrl(server)]);
    assert.equal(await program.ended, 0, program.output());
    assert.match(program.output(), /^A $[\s\S]*^GREEN $[\s\S]*^CALLED\.$/m);
    assert.match(program.output(), /Asked: \{"question":"Refund 30 euros\?"/);
    assert.match(program.output(), /Answered: Done: 30 euros are on their way\./);
  });

  it("the demo streams the tokens of its LangGraph.js agent", async () => {
    using folder = createTemporaryFolder();
    await using server = serveDemo(folder.path);
    const client = new Client({ apiUrl: await readUrl(server) });
    const tokens: string[] = [];
    for await (const { event, data } of client.runs.stream(null, "approval", { input, streamMode: "messages-tuple" })) {
      if (event === "messages") tokens.push(String(data[0].content));
    }
    assert.ok(tokens.length > 5, tokens.join("|"));
    assert.match(tokens.join(""), /I can refund money\./);
  });

  it("feedback.html records the thumbs on their run", async () => {
    using folder = createTemporaryFolder();
    await using program = served("feedback.ts", folder.path);
    const url = await readUrl(program);
    const response = await fetch(url);
    assert.match(response.headers.get("content-type") ?? "", /^text\/html/);
    const script = /<script type="module">([\s\S]*)<\/script>/.exec(await response.text())?.[1] ?? "";
    const document = fakeDocument();
    // Another origin than the page's would do as well: links are for everybody who has them.
    const page = (path: string, init: RequestInit): Promise<Response> =>
      fetch(new URL(path, url), { ...init, headers: { origin: "https://mail.example" } });
    new Function("document", "fetch", script)(document, page);
    const [form, answer, thumbs, thanks] = [
      document.querySelector("form"),
      document.querySelector("#answer"),
      document.querySelector("#thumbs"),
      document.querySelector("#thanks"),
    ];
    const ask = async (): Promise<void> => await form.onsubmit?.({ preventDefault() {} });
    const press = async (value: string): Promise<void> => await thumbs.onclick?.({ target: { value } });
    for (const thumb of ["1", "0"]) {
      await ask();
      assert.equal(answer.textContent, "You asked 1 question, here is one answer.");
      assert.deepEqual([thumbs.hidden, thanks.textContent], [false, ""]);
      // A click beside the buttons sends nothing.
      await press("");
      assert.equal(thumbs.hidden, false);
      await press(thumb);
      assert.deepEqual([thumbs.hidden, thanks.textContent], [true, "Thank you."]);
    }
    const records = (await (await fetch(`${url}/agents/api/v1/feedback?key=helpful`)).json()) as {
      readonly run_id: string;
      readonly score: number;
    }[];
    assert.deepEqual(
      records.map(({ score }) => score),
      [0, 1],
    );
    assert.equal(new Set(records.map(({ run_id }) => run_id)).size, 2);
  });

  it("webhook-receiver.ts accepts signed deliveries, and refuses changed ones", async () => {
    using folder = createTemporaryFolder();
    const secret = `whsec_${btoa("a secret of exactly thirty-two b")}`;
    await using receiver = served("webhook-receiver.ts", folder.path, { WEBHOOK_SECRET: secret });
    const url = await readUrl(receiver);
    /** Hands a delivery on three times: changed, as it came, and as it came once more. */
    const handOn = async ({ headers: deliveryHeaders }: Request, body: string): Promise<readonly number[]> => {
      // Its length is another one.
      const headers = new Headers(deliveryHeaders);
      for (const name of ["host", "connection", "content-length", "transfer-encoding"]) headers.delete(name);
      const statuses: number[] = [];
      for (const deliveryBody of [body.replace('"success"', '"error"'), body, body]) {
        statuses.push((await fetch(url, { method: "POST", headers, body: deliveryBody })).status);
      }
      return statuses;
    };
    let tell: (statuses: Promise<readonly number[]>) => void = () => {};
    const answers = new Promise<readonly number[]>((resolve) => {
      tell = resolve;
    });
    await using between = await serving(async (request) => {
      tell(handOn(request, await request.text()));
      return new Response(null, { status: 204 });
    });
    const port = Number(new URL(between.url).port);
    await using server = await serveHere({
      webhooks: { signing_secret: secret, url: { allow_private_network: true, allowed_ports: [port] } },
    });
    const run = { assistant_id: "echo", input, webhook: `${between.url}/hooks` };
    const { run_id } = (await (
      await fetch(`${server.url}/runs`, { method: "POST", body: JSON.stringify(run) })
    ).json()) as { readonly run_id: string };
    assert.deepEqual(await answers, [401, 204, 204]);
    await receiver.printed(/^Again: msg_/m);
    const printed = receiver.output().trim().split("\n").slice(1);
    assert.match(printed[0] ?? "", /^Refused: /);
    assert.equal(printed[1], `Run ${run_id}: success`);
    assert.equal(printed.length, 3, receiver.output());

    // Old deliveries, other secrets and requests without a signature are not taken either.
    const body = JSON.stringify({ run_id, status: "success" });
    const post = async (signer: Webhook, at: Date): Promise<number> => {
      const headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),
        "webhook-signature": signer.sign("msg_1", at, body),
      };
      return (await fetch(url, { method: "POST", headers, body })).status;
    };
    const now = Date.now();
    assert.equal(await post(new Webhook(secret), new Date(now)), 204);
    assert.equal(await post(new Webhook(secret), new Date(now - 3_600_000)), 401);
    assert.equal(await post(new Webhook(`whsec_${btoa("another secret of 32 characters!")}`), new Date(now)), 401);
    assert.equal((await fetch(url, { method: "POST", body })).status, 401);
  });

  it("usage-export.ts writes the traces of last month to a file, with a key that may read them", async () => {
    using folder = createTemporaryFolder();
    const API_KEY = "0123456789-0123456789-0123456789";
    const today = new Date();
    const [year, month] = [today.getUTCFullYear(), today.getUTCMonth()];
    let now = Date.UTC(year, month - 1, 1);
    await using server = await serveHere({
      identity: staticIdentity({ keys: [API_KEY] }),
      auth: { mode: "api_key" },
      environment: { now: () => now },
    });
    const client = new Client({ apiUrl: server.url, apiKey: API_KEY });
    // The first moment of the month counts, and the first one after it does not.
    for (const at of [Date.UTC(year, month - 1, 1), Date.UTC(year, month - 1, 2), Date.UTC(year, month, 1)]) {
      now = at;
      await client.runs.wait(null, "echo", { input });
    }
    const run = (key: string): Program =>
      start("examples/usage-export.ts", [server.url], { cwd: folder.path, env: { API_KEY: key } });
    {
      await using stranger = run("0123456789-0123456789-9876543210");
      assert.notEqual(await stranger.ended, 0);
      assert.match(stranger.output(), /\/workspaces: 401 /);
    }
    await using program = run(API_KEY);
    assert.equal(await program.ended, 0, program.output());
    const file = /^Wrote (.+)$/m.exec(program.output())?.[1] ?? "";
    const day = (at: number): string => new Date(at).toISOString().slice(0, 10);
    const [from, to] = [day(Date.UTC(year, month - 1, 1)), day(Date.UTC(year, month, 1))];
    assert.equal(file, `granular-usage-project-${from}-${to}.csv`);
    const [head, ...rows] = readFileSync(join(folder.path, file), "utf8").trimEnd().split("\r\n");
    assert.match(head ?? "", /^Time Bucket Start,Time Bucket End,.*,Traces$/);
    assert.deepEqual(
      rows.map((row) => [row.split(",")[0], row.split(",").at(-1)]),
      [
        [`${from}T00:00:00Z`, "1"],
        [`${day(Date.UTC(year, month - 1, 2))}T00:00:00Z`, "1"],
      ],
    );
  });
});
