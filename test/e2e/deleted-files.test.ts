/** A server whose database file is deleted or moved away while clients wait for runs: every request is answered, and /ready tells the truth. */
import assert from "node:assert/strict";
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { createTemporaryFolder, start, waitForUrl } from "../support/programs.ts";

/** The function waits until the test has taken the file away. */
const AGENT = `
import { existsSync } from "node:fs";
export const waits = async ({ signal }) => {
  while (!existsSync("go-on") && !signal.aborted) await new Promise((resolve) => setTimeout(resolve, 20));
  return "ok";
};
`;

function project(): ReturnType<typeof createTemporaryFolder> {
  const folder = createTemporaryFolder();
  writeFileSync(join(folder.path, "agents.ts"), AGENT);
  writeFileSync(join(folder.path, "greenroom.json"), JSON.stringify({ graphs: { waits: "./agents.ts:waits" } }));
  return folder;
}

const ARGUMENTS = ["--port", "0", "--database", "agents.db"];
/** Far more than a request may take, and far less than a lease: a request that hangs fails the test. */
const PATIENCE_MS = 15_000;
const RUN = { assistant_id: "waits", input: {} };

interface Answer {
  readonly status: number;
  /** Null: the connection broke before the end of the body. */
  readonly text: string | null;
}

/** Rejects if there is no answer in time. */
async function request(url: string, method: string, path: string, body?: unknown): Promise<Answer> {
  const response = await fetch(`${url}${path}`, {
    method,
    headers: { "content-type": "application/json" },
    signal: AbortSignal.timeout(PATIENCE_MS),
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text().catch((error: Error) => {
    if (error.name === "TimeoutError") throw error;
    return null;
  });
  return { status: response.status, text };
}

async function readyIs(url: string, status: number): Promise<void> {
  const end = performance.now() + PATIENCE_MS;
  while ((await request(url, "GET", "/ready")).status !== status) {
    assert.ok(performance.now() < end, `/ready does not become ${status}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Starts runs that clients wait for in each way, and resolves when all of them execute. */
async function startWaiting(url: string): Promise<Readonly<Record<string, Promise<Answer>>>> {
  const threads = await Promise.all(
    [1, 2, 3].map(async () => JSON.parse((await request(url, "POST", "/threads", {})).text ?? "").thread_id as string),
  );
  const { run_id } = JSON.parse((await request(url, "POST", `/threads/${threads[2]}/runs`, RUN)).text ?? "");
  const waiting = {
    "a stateless wait": request(url, "POST", "/runs/wait", RUN),
    "a wait on a thread": request(url, "POST", `/threads/${threads[0]}/runs/wait`, RUN),
    "a stream": request(url, "POST", `/threads/${threads[1]}/runs/stream`, RUN),
    "a join": request(url, "GET", `/threads/${threads[2]}/runs/${run_id}/join`),
  };
  for (;;) {
    const { text } = await request(url, "GET", "/metrics?format=json");
    if (JSON.parse(text ?? "").runs.running === 4) return waiting;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** A complete answer says that the database is lost; anything else broke off. */
async function checkAnswers(waiting: Readonly<Record<string, Promise<Answer>>>): Promise<void> {
  for (const [name, answer] of Object.entries(waiting)) {
    const { text } = await answer;
    assert.doesNotMatch(text ?? "", /"status":"success"|"content":"ok"/, name);
    if (name !== "a stream") assert.match(text ?? "", /damaged, deleted or replaced/, name);
  }
}

describe("a server whose database file", { timeout: 120_000 }, () => {
  it("is deleted answers all waiting and later requests, and is not ready again", async () => {
    using folder = project();
    await using program = start("server.ts", ARGUMENTS, { cwd: folder.path });
    const url = await waitForUrl(program);
    const waiting = await startWaiting(url);
    rmSync(join(folder.path, "agents.db"));
    await readyIs(url, 503);
    writeFileSync(join(folder.path, "go-on"), "");
    await checkAnswers(waiting);
    for (const [method, path, body] of [
      ["POST", "/threads", {}],
      ["POST", "/runs/wait", RUN],
      ["PUT", "/store/items", { namespace: ["a"], key: "k", value: {} }],
    ] as const) {
      assert.equal((await request(url, method, path, body)).status, 503, path);
    }
    assert.equal((await request(url, "GET", "/ready")).status, 503);
  });

  it("is moved away and back is ready again, and executes its runs", async () => {
    using folder = project();
    await using program = start("server.ts", ARGUMENTS, { cwd: folder.path });
    const url = await waitForUrl(program);
    const waiting = await startWaiting(url);
    const path = join(folder.path, "agents.db");
    renameSync(path, `${path}.away`);
    await readyIs(url, 503);
    assert.equal((await request(url, "POST", "/threads", {})).status, 503);
    await checkAnswers(waiting);
    renameSync(`${path}.away`, path);
    await readyIs(url, 200);
    writeFileSync(join(folder.path, "go-on"), "");
    const { status, text } = await request(url, "POST", "/runs/wait", RUN);
    assert.equal(status, 200);
    assert.match(text ?? "", /"content":"ok"/);
    // The runs that were under way are not lost.
    for (;;) {
      const { runs } = JSON.parse((await request(url, "GET", "/metrics?format=json")).text ?? "");
      if (runs.running === 0 && runs.pending === 0) break;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  });
});
