/** Checks the conditions under which the stand-alone server serves, and the addresses at which others find it. */
import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { createTemporaryFolder, type Program, start, waitForUrl } from "../../support/programs.ts";

const agents = 'export async function* echo() { yield "said"; }\n';
const KEY = "k".repeat(32);
const OTHER = "o".repeat(40);

type Folder = ReturnType<typeof createTemporaryFolder>;

function project(config: object = {}): Folder {
  const folder = createTemporaryFolder();
  mkdirSync(join(folder.path, "src"));
  writeFileSync(join(folder.path, "src/agents.mjs"), agents);
  const graphs = { echo: "./src/agents.mjs:echo" };
  writeFileSync(join(folder.path, "greenroom.json"), JSON.stringify({ graphs, ...config }));
  return folder;
}

const serve = (folder: Folder, args: readonly string[] = [], env: Record<string, string> = {}): Program =>
  start("server.ts", ["--port", "0", ...args], { cwd: folder.path, env });

/** Runs a program that ends by itself. Returns its exit code and its output. */
async function waitForEnd(program: Program): Promise<readonly [code: number | string, output: string]> {
  await using running = program;
  return [await running.ended, running.output()];
}

const status = async (url: string, key?: string): Promise<number> => {
  const response = await fetch(url, key === undefined ? {} : { headers: { "x-api-key": key } });
  await response.body?.cancel();
  return response.status;
};

const post = async <Value>(url: string, body: unknown): Promise<Value> => {
  const response = await fetch(url, { method: "POST", body: JSON.stringify(body) });
  assert.equal(response.status, 200, `${url}: ${response.status}`);
  return (await response.json()) as Value;
};

/** Returns the data of the stream's `feedback` event. */
async function readLinks(url: string): Promise<Record<string, string>> {
  const body = JSON.stringify({ assistant_id: "echo", feedback_keys: "thumbs" });
  const text = await (await fetch(`${url}/runs/stream`, { method: "POST", body })).text();
  return JSON.parse(/^event: feedback\ndata: (.*)$/m.exec(text)?.[1] ?? "{}") as Record<string, string>;
}

describe("a server without keys", () => {
  it("listens on no address that other machines reach", async () => {
    using folder = project();
    for (const args of [["--host", "0.0.0.0"], ["--host=::"], ["--host", "192.0.2.1"]]) {
      const [code, output] = await waitForEnd(serve(folder, args));
      assert.equal(code, 1);
      assert.match(output, /--host: the server has no authentication.* greenroom keys create.* GREENROOM_API_KEYS/s);
    }
  });

  it("reports that it is open, and the workspace of its runs", async () => {
    using folder = project();
    await using program = serve(folder);
    const url = await waitForUrl(program);
    assert.match(program.output(), /^No authentication: /m);
    const ids = /^Organization (\S+), workspace (\S+), project (\S+)$/m.exec(program.output())?.slice(1);
    const [workspace] = (await (await fetch(`${url}/api/v1/workspaces`)).json()) as Record<string, string>[];
    assert.deepEqual([workspace?.organization_id, workspace?.id], ids?.slice(0, 2));
    await program.kill("SIGTERM");
    await using again = serve(folder);
    await waitForUrl(again);
    assert.deepEqual(/^Organization (\S+), workspace (\S+), project (\S+)$/m.exec(again.output())?.slice(1), ids);
  });

  it("requires keys from the start after the one in which the first was created", async () => {
    using folder = project();
    let key: string;
    {
      await using program = serve(folder);
      const url = await waitForUrl(program);
      const [code, output] = await waitForEnd(start("server.ts", ["keys", "create"], { cwd: folder.path }));
      assert.equal(code, 0, output);
      key = /^gr_sk_[0-9a-f]{32}_[0-9a-f]{10}$/m.exec(output)?.[0] ?? "";
      assert.equal(await status(`${url}/api/v1/workspaces`), 200);
      assert.equal(await program.kill("SIGTERM"), 0);
    }
    await using program = serve(folder);
    const url = await waitForUrl(program);
    assert.doesNotMatch(program.output(), /^Open/m);
    assert.deepEqual(
      [await status(`${url}/api/v1/workspaces`), await status(`${url}/api/v1/workspaces`, key)],
      [401, 200],
    );
    assert.equal(await status(`${url}/api/v1/workspaces`, `${key.slice(0, -1)}x`), 401);
    const [code, output] = await waitForEnd(
      start("server.ts", ["keys", "revoke", `gr_sk_...${key.slice(-4)}`], { cwd: folder.path }),
    );
    assert.equal(code, 0, output);
    assert.equal(await status(`${url}/api/v1/workspaces`, key), 401);
  });
});

describe("GREENROOM_API_KEYS", () => {
  it("makes the server require one of them, on every address", async () => {
    using folder = project();
    await using program = serve(folder, ["--host", "0.0.0.0"], { GREENROOM_API_KEYS: `${KEY}, ${OTHER},` });
    const listening = await waitForUrl(program);
    assert.match(program.output(), /Feedback links start with http:\/\/0\.0\.0\.0:\d+.*--public-base-url/);
    assert.doesNotMatch(program.output(), /^Open/m);
    const url = `http://127.0.0.1:${new URL(listening).port}`;
    for (const path of ["/threads/11111111-1111-4111-8111-111111111111", "/api/v1/workspaces", "/metrics"]) {
      assert.equal(await status(url + path), 401, path);
      assert.equal(await status(url + path, "x".repeat(32)), 401, path);
    }
    for (const path of ["/ok", "/ready", "/info", "/api/v1/info", "/openapi.json"]) {
      assert.equal(await status(url + path), 200, path);
    }
    for (const key of [KEY, OTHER]) assert.equal(await status(`${url}/api/v1/workspaces`, key), 200);
    assert.ok(!program.output().includes(KEY) && !program.output().includes(OTHER));
  });

  it("permits /metrics without a key only on a loopback address", async () => {
    using folder = project();
    await using program = serve(folder, [], { GREENROOM_API_KEYS: KEY });
    const url = await waitForUrl(program);
    assert.deepEqual([await status(`${url}/metrics`), await status(`${url}/api/v1/workspaces`)], [200, 401]);
  });

  it("is rejected with short keys, which the error does not show", async () => {
    using folder = project();
    const [code, output] = await waitForEnd(serve(folder, [], { GREENROOM_API_KEYS: `${KEY},short-secret` }));
    assert.equal(code, 1);
    assert.match(output, /GREENROOM_API_KEYS: keys\.1: has 12 characters; use at least 32/);
    assert.ok(!output.includes("short-secret") && !output.includes(KEY));
  });

  it("contradicts a configuration without authentication", async () => {
    using folder = project({ auth: { mode: "none" } });
    const [code, output] = await waitForEnd(serve(folder, [], { GREENROOM_API_KEYS: KEY }));
    assert.deepEqual([code, /GREENROOM_API_KEYS: has no effect while auth\.mode is "none"/.test(output)], [1, true]);
  });
});

describe("GREENROOM_USAGE_ENABLED", () => {
  it("switches usage reports, and overrides the configuration", async () => {
    const path = "/api/v1/orgs/current/billing/granular-usage";
    for (const [enabled, value, expected] of [
      [true, "0", 404],
      [false, "1", 422],
      [false, "", 404],
    ] as const) {
      using folder = project({ usage: { enabled } });
      await using program = serve(folder, [], { GREENROOM_USAGE_ENABLED: value });
      const url = await waitForUrl(program);
      assert.equal(await status(url + path), expected, `${enabled}, ${value}`);
    }
    using folder = project();
    const [code, output] = await waitForEnd(serve(folder, [], { GREENROOM_USAGE_ENABLED: "yes" }));
    assert.deepEqual([code, /GREENROOM_USAGE_ENABLED: yes is neither 0 nor 1/.test(output)], [1, true]);
  });
});

describe("webhooks of the configuration", () => {
  it("are checked when the server starts: every problem is listed", async () => {
    using folder = project({
      webhooks: {
        headers: {
          "X-One": ["$", "{{ env.SERVICE_WEBHOOK_MISSING }}"].join(""),
          "X-Two": ["$", "{{ env.HOME }}"].join(""),
          "Content-Type": "text/plain",
        },
        url: { allowed_domains: ["*"], allowed_port: [443] },
        delivery: { timeout_ms: "soon" },
        secret: "whsec_x",
      },
    });
    const [code, output] = await waitForEnd(serve(folder));
    assert.equal(code, 1);
    for (const part of [
      /webhooks\.headers\.X-One: .*\(missing_env\)/,
      /webhooks\.headers\.X-Two: .*\(env_not_allowed\)/,
      /webhooks\.headers\.Content-Type: .*\(reserved_header\)/,
      /webhooks\.url\.allowed_domains\.0: /,
      /webhooks\.url\.allowed_port: .*\(unknown_option\)/,
      /webhooks\.delivery\.timeout_ms: /,
      /webhooks\.secret: .*\(unknown_option\)/,
    ]) {
      assert.match(output, part);
    }
    assert.doesNotMatch(output, /^\s+at /m);
  });

  it("may be paths of the server itself", async () => {
    using folder = project();
    await using program = serve(folder);
    const url = await waitForUrl(program);
    const { thread_id } = await post<{ thread_id: string }>(`${url}/threads`, {});
    // The payload of the webhook names an assistant, and so it starts a run there.
    await post(`${url}/runs/wait`, { assistant_id: "echo", webhook: `/threads/${thread_id}/runs/wait` });
    const until = Date.now() + 30_000;
    for (let runs: unknown[] = []; runs.length === 0; ) {
      assert.ok(Date.now() < until, "the webhook never came");
      await new Promise((resolve) => setTimeout(resolve, 20));
      runs = (await (await fetch(`${url}/threads/${thread_id}/runs`)).json()) as unknown[];
    }
    const refused = await fetch(`${url}/runs`, {
      method: "POST",
      body: JSON.stringify({ assistant_id: "echo", webhook: `${url}/ok` }),
    });
    assert.deepEqual(
      [refused.status, await refused.json()],
      [422, { detail: "Invalid webhook URL: ip_not_public", code: "webhook_refused" }],
    );
  });
});

describe("feedback links", () => {
  it("start with the address on which the server listens, and work", async () => {
    using folder = project();
    await using program = serve(folder);
    const url = await waitForUrl(program);
    const { thumbs = "" } = await readLinks(url);
    assert.match(thumbs.replace(url, ""), /^\/api\/v1\/feedback\/tokens\/[0-9a-f-]{36}$/);
    assert.equal(await status(`${thumbs}?score=1`), 200);
    const records = (await (await fetch(`${url}/api/v1/feedback`)).json()) as { key: string; score: number }[];
    assert.deepEqual(
      records.map(({ key, score }) => [key, score]),
      [["thumbs", 1]],
    );
  });

  it("start with the public base URL; that of the command overrides that of the configuration", async () => {
    using folder = project({ public_base_url: "https://config.example/agents" });
    for (const [args, base] of [
      [[], "https://config.example/agents"],
      [["--public-base-url", "https://flag.example"], "https://flag.example"],
    ] as const) {
      await using program = serve(folder, args);
      const url = await waitForUrl(program);
      const { thumbs = "" } = await readLinks(url);
      assert.ok(thumbs.startsWith(`${base}/api/v1/feedback/tokens/`), thumbs);
    }
    const [code, output] = await waitForEnd(serve(folder, [], { GREENROOM_PUBLIC_BASE_URL: "flag.example" }));
    assert.deepEqual(
      [code, /GREENROOM_PUBLIC_BASE_URL: must be an absolute http or https URL/.test(output)],
      [1, true],
    );
  });
});
