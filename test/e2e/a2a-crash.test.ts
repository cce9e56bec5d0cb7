/** Tasks by A2A after kill -9: one that works is subscribed to again, one that asks is answered. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { it } from "node:test";
import { Webhook } from "standardwebhooks";
import type { JsonObject } from "../../lib/json.ts";
import {
  type Ask,
  answerText,
  asker,
  joinTexts,
  plain,
  readState,
  readTask,
  type ShownTask,
  say,
} from "../lib/http/endpoints/a2a/a2a.harness.ts";
import { createTemporaryFolder, start, waitForUrl } from "../support/programs.ts";
import { until } from "../support/until.ts";

const AGENTS = `
import { existsSync, writeFileSync } from "node:fs";
export async function* slow({ signal }) {
  yield "Before. ";
  writeFileSync("begun", "");
  while (!existsSync("go")) {
    signal.throwIfAborted();
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  yield "After.";
}
export const asks = ({ command, interrupt }) =>
  command?.resume === undefined ? interrupt("Which city?") : "Got " + command.resume;
`;

it("A2A tasks continue after kill -9 with the same ids", async () => {
  using folder = createTemporaryFolder();
  writeFileSync(join(folder.path, "agents.mjs"), AGENTS);
  const graphs = { slow: "./agents.mjs:slow", asks: "./agents.mjs:asks" };
  writeFileSync(join(folder.path, "greenroom.json"), JSON.stringify({ graphs, worker: { lease_ms: 1000 } }));
  const serve = () => start("server.ts", ["--port", "0", "--database", "agents.db"], { cwd: folder.path });
  const connect = async (program: ReturnType<typeof serve>): Promise<Ask> => asker(fetch, await waitForUrl(program));

  const first = serve();
  const before = await connect(first);
  const later = { configuration: { returnImmediately: true } };
  const slow = readTask(await before("slow", "SendMessage", say("Hi", {}, later)));
  const asks = readTask(await before("asks", "SendMessage", say("Weather?")));
  await until(async () => readState(plain(await before("slow", "GetTask", { id: slow.id }))) === "WORKING", "it works");
  await first.kill("SIGKILL");

  await using second = serve();
  const ask = await connect(second);
  const question = plain(await ask("asks", "GetTask", { id: asks.id }));
  assert.deepEqual([readState(question), question.status.message], ["INPUT_REQUIRED", asks.status.message]);
  // It goes on once the subscription is there: a task that has ended refuses one.
  const subscribing = async (...request: Parameters<typeof fetch>): Promise<Response> => {
    const response = await fetch(...request);
    writeFileSync(join(folder.path, "go"), "");
    return response;
  };
  const subscribe = asker(subscribing, await waitForUrl(second));
  const { events } = await subscribe("slow", "SubscribeToTask", { id: slow.id });
  assert.equal((events[0]?.task as unknown as ShownTask | undefined)?.id, slow.id);
  let text = "";
  for (const { artifactUpdate } of events) {
    const { artifact, append } = (artifactUpdate ?? {}) as { artifact?: { parts: JsonObject[] }; append?: boolean };
    // What a lost attempt has said is replaced.
    if (artifact) text = (append ? text : "") + joinTexts(artifact.parts);
  }
  assert.equal(text, "Before. After.");
  assert.equal(answerText(plain(await ask("slow", "GetTask", { id: slow.id }))), "Before. After.");
  const done = readTask(await ask("asks", "SendMessage", say("Rome", { taskId: asks.id, contextId: asks.contextId })));
  assert.deepEqual([done.id, answerText(done)], [asks.id, "Got Rome"]);
});

it("A2A push notifications are sent after kill -9 with their signature", async () => {
  using folder = createTemporaryFolder();
  const signing_secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
  const states: unknown[] = [];
  const receiver = createServer(async (request, response) => {
    const body = Buffer.concat(await Array.fromAsync(request as AsyncIterable<Buffer>)).toString();
    const { statusUpdate } = new Webhook(signing_secret).verify(body, request.headers as Record<string, string>) as {
      statusUpdate: { taskId: string; status: { state: string } };
    };
    states.push([statusUpdate.taskId, statusUpdate.status.state, request.headers.authorization]);
    response.writeHead(204).end();
  });
  await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
  const { port } = receiver.address() as AddressInfo;
  writeFileSync(join(folder.path, "agents.mjs"), AGENTS);
  const configuration = {
    graphs: { slow: "./agents.mjs:slow", asks: "./agents.mjs:asks" },
    worker: { lease_ms: 1000 },
    webhooks: { signing_secret, url: { allow_private_network: true, allowed_ports: [port] } },
  };
  writeFileSync(join(folder.path, "greenroom.json"), JSON.stringify(configuration));
  const serve = () => start("server.ts", ["--port", "0", "--database", "agents.db"], { cwd: folder.path });
  const connect = async (program: ReturnType<typeof serve>): Promise<Ask> => asker(fetch, await waitForUrl(program));
  const authentication = { scheme: "Bearer", credentials: "c" };
  try {
    const first = serve();
    const before = await connect(first);
    const push = { id: "p", url: `http://127.0.0.1:${port}/told`, authentication };
    const later = { configuration: { returnImmediately: true, taskPushNotificationConfig: push } };
    const slow = readTask(await before("slow", "SendMessage", say("Hi", {}, later)));
    const asks = readTask(await before("asks", "SendMessage", say("Weather?")));
    await before("asks", "CreateTaskPushNotificationConfig", { taskId: asks.id, ...push });
    await until(
      async () => readState(plain(await before("slow", "GetTask", { id: slow.id }))) === "WORKING",
      "it works",
    );
    await first.kill("SIGKILL");

    await using second = serve();
    const ask = await connect(second);
    assert.deepEqual((await ask("asks", "ListTaskPushNotificationConfigs", { taskId: asks.id })).result.configs, [
      { taskId: asks.id, ...push, authentication: { scheme: "Bearer" } },
    ]);
    await ask("asks", "SendMessage", say("Rome", { taskId: asks.id, contextId: asks.contextId }));
    writeFileSync(join(folder.path, "go"), "");
    await until(() => states.length === 2, "both are told");
    const expectedStates = [slow.id, asks.id].map((id) => [id, "TASK_STATE_COMPLETED", "Bearer c"]);
    assert.deepEqual(states.sort(), expectedStates.sort());
  } finally {
    receiver.closeAllConnections();
    await new Promise<void>((resolve) => receiver.close(() => resolve()));
  }
});
