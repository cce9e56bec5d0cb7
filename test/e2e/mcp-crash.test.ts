/** Calls by MCP after kill -9: tasks that work, ask and have ended, and an interrupted call that is answered later. */
import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { it } from "node:test";
import type { JsonObject } from "../../lib/json.ts";
import {
  type Ask,
  answered,
  asker,
  call,
  FORMS,
  readText,
  replyTo,
  session,
  TASKS,
} from "../lib/http/endpoints/mcp/mcp.harness.ts";
import { createTemporaryFolder, start, waitForUrl } from "../support/programs.ts";
import { until } from "../support/until.ts";

const MODERN = { capabilities: { ...FORMS, ...TASKS } };
const FORM = { capabilities: FORMS };

const AGENTS = `
import { appendFileSync, existsSync } from "node:fs";
const done = (name) => appendFileSync("done.txt", name + "\\n");
export async function slow({ signal }) {
  while (!existsSync("go")) {
    signal.throwIfAborted();
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  done("slow");
  return "Slow, but there";
}
export function refund({ command, interrupt }) {
  if (command?.resume === undefined) return interrupt("Refund?");
  done("refund " + command.resume);
  return "Got " + command.resume;
}
export const echo = ({ messages }) => "You said " + messages.at(-1).content;
`;

it("MCP calls continue after kill -9 with the same ids, and each resume value counts once", async () => {
  using folder = createTemporaryFolder();
  writeFileSync(join(folder.path, "agents.mjs"), AGENTS);
  const [slow, echo] = ["./agents.mjs:slow", "./agents.mjs:echo"];
  const graphs = { slow, refund: { path: "./agents.mjs:refund", mcp: { model_may_answer: true } }, echo };
  const config = { graphs, http: { mcp: { task_after_ms: 0 } }, worker: { lease_ms: 1000 } };
  writeFileSync(join(folder.path, "greenroom.json"), JSON.stringify(config));
  const serve = () => start("server.ts", ["--port", "0", "--database", "agents.db"], { cwd: folder.path });
  const connect = async (program: ReturnType<typeof serve>): Promise<Ask> =>
    asker(fetch, `${await waitForUrl(program)}/mcp`);

  async function polled(ask: Ask, taskId: string, status: string): Promise<JsonObject> {
    let task: JsonObject = {};
    await until(async () => {
      task = (await ask("tasks/get", { taskId }, MODERN)).result;
      return task.status === status;
    }, `a task that is ${status}`);
    const { lastUpdatedAt: _at, ttlMs: _ttl, statusMessage: _message, ...stableTask } = task;
    return stableTask;
  }
  const created = async (ask: Ask, name: string): Promise<string> =>
    (await ask("tools/call", call(name), MODERN)).result.taskId as string;

  const first = serve();
  const before = await connect(first);
  const ids = {
    slow: await created(before, "slow"),
    asks: await created(before, "refund"),
    echo: await created(before, "echo"),
  };
  const ended = await polled(before, ids.echo, "completed");
  const asks = await polled(before, ids.asks, "input_required");
  const works = await polled(before, ids.slow, "working");
  const interrupted = (await before("tools/call", call("refund"), FORM)).result;
  const client = await session(fetch, { url: `${await waitForUrl(first)}/mcp` });
  const waiting = await client.callWithQuestions(call("refund"));
  const unanswered = await client.callWithQuestions(call("refund"));
  await first.kill("SIGKILL");
  await assert.rejects(waiting.result);

  await using second = serve();
  const ask = await connect(second);
  assert.deepEqual(await polled(ask, ids.echo, "completed"), ended);
  assert.deepEqual(await polled(ask, ids.asks, "input_required"), asks);
  assert.deepEqual(await polled(ask, ids.slow, "working"), works);

  writeFileSync(join(folder.path, "go"), "");
  const completed = await polled(ask, ids.slow, "completed");
  assert.equal(readText(completed.result as JsonObject), "Slow, but there");
  const reply = answered(asks, { answer: "yes" });
  await ask("tasks/update", { taskId: ids.asks, inputResponses: reply.inputResponses ?? null }, MODERN);
  await ask("tasks/update", { taskId: ids.asks, inputResponses: reply.inputResponses ?? null }, MODERN);
  assert.equal(readText((await polled(ask, ids.asks, "completed")).result as JsonObject), "Got yes");
  for (let time = 0; time < 2; time++) {
    const repeated = call("refund", answered(interrupted, { answer: "later" }));
    assert.equal(readText((await ask("tools/call", repeated, FORM)).result), "Got later");
  }
  // The connections of the older client broke. A reply that comes after the restart counts, and the handle for what has none.
  const again = await session(fetch, { url: `${await waitForUrl(second)}/mcp`, id: client.id });
  for (let time = 0; time < 2; time++) {
    assert.equal(await again.send(replyTo(waiting.questions[0] ?? {}, { answer: "after" })), 202);
  }
  const threads = `${await waitForUrl(second)}/threads/search`;
  const response = await fetch(threads, { method: "POST", body: JSON.stringify({ status: "interrupted" }) });
  const open = (await response.json()) as { readonly thread_id: string }[];
  assert.equal(open.length, 1);
  const handle = { name: "refund", arguments: { thread_id: open[0]?.thread_id ?? "", resume: "by handle" } };
  assert.equal(readText((await ask("tools/call", handle)).result), "Got by handle");
  assert.equal(unanswered.questions.length, 1);
  const done = (): string[] =>
    existsSync(join(folder.path, "done.txt"))
      ? readFileSync(join(folder.path, "done.txt"), "utf8").trim().split("\n").sort()
      : [];
  const all = ["refund after", "refund by handle", "refund later", "refund yes", "slow"];
  await until(() => done().length >= all.length);
  assert.deepEqual(done(), all);
});
