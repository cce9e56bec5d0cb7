/** The platform's own JavaScript client, as it is, and the requests of its Python twin. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Client } from "langsmith";
import { type TestService, testService } from "../suite/kit.ts";

const BASE = "http://greenroom.example/agents";

const service = (): Promise<TestService> =>
  testService({
    agents: {
      async *echo({ input }) {
        yield { messages: [], said: input };
      },
    },
    public_base_url: BASE,
  });

function createClient({ fetch }: TestService): Client {
  const within = (input: string | URL | Request, init?: RequestInit): Promise<Response> => {
    const request = new Request(input, init);
    return fetch(new Request(request.url.replace(BASE, "http://greenroom"), request));
  };
  return new Client({
    apiUrl: `${BASE}/api/v1`,
    apiKey: "any",
    autoBatchTracing: false,
    callerOptions: { maxRetries: 0 },
    fetchImplementation: within as typeof globalThis.fetch,
  });
}

/** Creates a run that has ended, and returns its id. */
async function aRun({ service }: TestService): Promise<string> {
  const { run, result } = await service.runs.wait(null, { assistant_id: "echo", input: { a: 1 } });
  await result;
  return run.run_id;
}

async function all<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const list: Item[] = [];
  for await (const item of items) list.push(item);
  return list;
}

describe("the langsmith client", () => {
  it("creates and lists feedback links, over more than one page", async () => {
    await using at = await service();
    const client = createClient(at);
    const run_id = await aRun(at);
    const first = await client.createPresignedFeedbackToken(run_id, "user_score");
    assert.match(first.url, new RegExp(`^${BASE}/api/v1/feedback/tokens/[0-9a-f-]{36}$`));
    assert.ok(Date.parse(first.expires_at) > Date.now());
    await client.createPresignedFeedbackToken(run_id, "k", { expiration: { hours: 0 } });
    await client.createPresignedFeedbackToken(run_id, "k", { expiration: "2099-01-01T00:00:00Z" }).then(
      () => assert.fail("a life of over a year"),
      (error: unknown) => assert.match(String(error), /422/),
    );
    for (let i = 0; i < 120; i++) await client.createPresignedFeedbackToken(run_id, `key ${i}`);
    const listed = await all(client.listPresignedFeedbackTokens(run_id));
    assert.equal(listed.length, 122);
    assert.equal(new Set(listed.map(({ id }) => id)).size, 122);
    assert.equal(listed[0]?.url, first.url);
  });

  it("creates, reads, changes, lists and deletes feedback", async () => {
    await using at = await service();
    const client = createClient(at);
    const run_id = await aRun(at);
    const feedback = await client.createFeedback(run_id, "quality", {
      score: 0.123456,
      comment: "good",
      value: "fine",
    });
    const read = await client.readFeedback(feedback.id);
    assert.deepEqual(
      [read.key, read.score, read.comment, read.value, read.run_id],
      ["quality", 0.1235, "good", "fine", run_id],
    );
    await client.updateFeedback(feedback.id, { score: 1, comment: "better" });
    assert.deepEqual((await client.readFeedback(feedback.id)).comment, "better");
    await client.createFeedback(run_id, "other", { score: true });
    const listed = await all(client.listFeedback({ runIds: [run_id], feedbackKeys: ["quality", "other"] }));
    assert.deepEqual(listed.map(({ key }) => key).sort(), ["other", "quality"]);
    assert.deepEqual((await all(client.listFeedback({ runIds: [run_id], feedbackKeys: ["other"] }))).length, 1);
    await client.deleteFeedback(feedback.id);
    await assert.rejects(client.readFeedback(feedback.id), /404/);
  });

  it("records feedback that is submitted to a link, under its run", async () => {
    await using at = await service();
    const client = createClient(at);
    const run_id = await aRun(at);
    const { url } = await client.createPresignedFeedbackToken(run_id, "user_score");
    // What the Python client sends to a link: all fields, its key too.
    const body = { score: 1, value: null, correction: null, comment: "nice", metadata: { a: 1 } };
    const path = new URL(url).pathname.replace("/agents", "");
    const answer = await at.fetch(`http://greenroom${path}`, {
      method: "POST",
      headers: { "x-api-key": "ignored", "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    assert.equal(answer.status, 200);
    const [feedback] = await all(client.listFeedback({ runIds: [run_id] }));
    assert.deepEqual([feedback?.score, feedback?.comment, feedback?.key], [1, "nice", "user_score"]);
    const source = (feedback?.feedback_source ?? {}) as { readonly metadata?: unknown };
    assert.deepEqual(source.metadata, { a: 1 });
  });

  it("may send links as the Python client does: a list, with an id and nulls", async () => {
    await using at = await service();
    const run_id = await aRun(at);
    const linkRequest = {
      run_id,
      feedback_config: null,
      expires_at: null,
      expires_in: { days: 0, hours: 3, minutes: 0 },
    };
    const answer = await at.fetch("http://greenroom/api/v1/feedback/tokens", {
      method: "POST",
      body: JSON.stringify([
        { ...linkRequest, feedback_key: "a", id: crypto.randomUUID() },
        {
          ...linkRequest,
          feedback_key: "b",
          expires_in: null,
          expires_at: new Date(Date.now() + 60_000).toISOString().slice(0, -1),
        },
      ]),
    });
    const tokens = (await answer.json()) as { feedback_key: string; url: string }[];
    assert.deepEqual(
      tokens.map(({ feedback_key }) => feedback_key),
      ["a", "b"],
    );
    assert.ok(tokens.every(({ url }) => !url.endsWith("/")));
  });
});
