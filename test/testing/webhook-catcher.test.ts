/** The webhook catcher of the test kit, as a host's own tests use it. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Webhook } from "standardwebhooks";
import { type CatcherOptions, catchWebhooks, testService, type WebhookCatcher } from "../suite/mod.ts";

const SECRET = `whsec_${btoa("a secret of exactly thirty-two b")}`;
const OTHER = `whsec_${btoa("another secret of 32 characters!")}`;
const agents = { hello: () => "Hello" };
const input = { messages: "Hi" };

/** Ends a run that names the catcher, on a service that is configured with it. */
async function end(catcher: WebhookCatcher, path = ""): Promise<AsyncDisposable & { readonly run_id: string }> {
  const kit = await testService({ agents, webhooks: catcher.webhooks });
  const { run } = await kit.service.runs.wait(null, { assistant_id: "hello", input, webhook: catcher.url + path });
  return { run_id: run.run_id, [Symbol.asyncDispose]: () => kit[Symbol.asyncDispose]() };
}

for (const [how, socket] of [
  ["over a socket", true],
  ["without a socket", false],
] as const) {
  const open = (options: CatcherOptions = {}): Promise<WebhookCatcher> => catchWebhooks({ socket, ...options });

  describe(`a webhook catcher, ${how}`, () => {
    it("catches the end of a run, and verifies its signature", async () => {
      await using catcher = await open({ secret: SECRET });
      await using ended = await end(catcher, "in?team=7");
      const caught = await catcher.next();
      assert.equal(caught.body.run_id, ended.run_id);
      assert.equal(caught.body.status, "success");
      assert.deepEqual(JSON.parse(caught.text), caught.body);
      assert.deepEqual([caught.path, caught.verified, caught.status], ["/in?team=7", true, 204]);
      assert.equal(caught.headers["content-type"], "application/json; charset=utf-8");
      assert.equal(caught.headers["webhook-id"], caught.id);
      assert.deepEqual(new Webhook(SECRET).verify(caught.text, { ...caught.headers }), caught.body);
      assert.deepEqual(catcher.received, [caught]);
    });

    it("requires no signature without a secret", async () => {
      await using catcher = await open();
      await using _ended = await end(catcher);
      const { verified, headers } = await catcher.next();
      assert.deepEqual([verified, headers["webhook-signature"]], [null, undefined]);
    });

    it("fails as often as configured, and receives the repeated delivery", async () => {
      await using catcher = await open({ secret: [OTHER, SECRET] });
      catcher.fail(2, 503);
      catcher.fail();
      await using ended = await end(catcher);
      await catcher.next(({ status }) => status === 204);
      const [first, ...repeats] = catcher.received;
      assert.deepEqual(
        catcher.received.map(({ status }) => status),
        [503, 503, 500, 204],
      );
      for (const repeat of repeats) assert.deepEqual([repeat.id, repeat.text], [first?.id, first?.text]);
      assert.ok(catcher.received.every(({ body, verified }) => body.run_id === ended.run_id && verified));
      // Those that were passed over are still there, in their order.
      assert.equal(await catcher.next(), first);
    });

    it("hangs until the sender gives up", async () => {
      await using catcher = await open();
      catcher.hang();
      const webhooks = { ...catcher.webhooks, delivery: { ...catcher.webhooks.delivery, timeout_ms: 50 } };
      await using kit = await testService({ agents, webhooks });
      await kit.service.runs.wait(null, { assistant_id: "hello", input, webhook: catcher.url });
      const [hung, accepted] = [await catcher.next(), await catcher.next()];
      assert.deepEqual([hung.status, accepted.status], [null, 204]);
      assert.equal(accepted.id, hung.id);
      const { attempt_list } = await kit.service.webhooks.get(accepted.id.replace("msg_", ""));
      assert.equal(attempt_list[0]?.error, "timeout");
    });

    it("returns each webhook once, to the oldest matching call", async () => {
      await using catcher = await open();
      const [b, any, a] = [
        catcher.next(({ path }) => path === "/b"),
        catcher.next(),
        catcher.next(({ path }) => path === "/a"),
      ];
      await using _one = await end(catcher, "a");
      await using _two = await end(catcher, "b");
      assert.deepEqual([(await any).path, (await b).path], ["/a", "/b"]);
      await using _three = await end(catcher, "a");
      assert.equal((await a).path, "/a");
      const none = catcher.next();
      const wrong = catcher.next(() => {
        throw new Error("a wrong predicate");
      });
      const failed = assert.rejects(wrong, /a wrong predicate/);
      await using _four = await end(catcher, "c");
      assert.equal((await none).path, "/c");
      await using _five = await end(catcher, "d");
      await failed;
    });

    it("rejects pending calls when it stops, and after their timeout", async () => {
      await using impatient = await open({ patience_ms: 20 });
      await assert.rejects(impatient.next(), /No matching webhook in 20 ms; received: 0/);
      await using catcher = await open();
      catcher.hang();
      await using ended = await end(catcher);
      assert.equal((await catcher.next()).body.run_id, ended.run_id);
      const waiting = assert.rejects(catcher.next(), /The webhook catcher has stopped/);
      await catcher.stop();
      await waiting;
      await assert.rejects(catcher.next(), /The webhook catcher has stopped/);
      await catcher.stop();
    });
  });
}

describe("a webhook catcher", () => {
  const signed = async (catcher: WebhookCatcher, headers: Record<string, string>, body: string): Promise<unknown> => {
    await catcher.fetch(new Request("http://host/hooks", { method: "POST", headers, body }));
    return (await catcher.next()).verified;
  };

  it("accepts no other signature", async () => {
    await using catcher = await catchWebhooks({ secret: SECRET, socket: false });
    const at = new Date(0);
    const body = '{"run_id":"1"}';
    const of = (signature: string, id = "msg_1", timestamp = "0"): Record<string, string> => ({
      "webhook-id": id,
      "webhook-timestamp": timestamp,
      "webhook-signature": signature,
    });
    const good = new Webhook(SECRET).sign("msg_1", at, body);
    assert.equal(await signed(catcher, of(good), body), true);
    assert.equal(await signed(catcher, of(`v1,AAAA v1a,xyz ${good}`), body), true);
    const bad = new Webhook(OTHER).sign("msg_1", at, body);
    for (const headers of [
      of(bad),
      of(good, "msg_2"),
      of(good, "msg_1", "1"),
      of(""),
      of(good.replace("v1", "v2")),
      {},
    ]) {
      assert.equal(await signed(catcher, headers, body), false, JSON.stringify(headers));
    }
    assert.equal(await signed(catcher, of(good), `${body} `), false);
  });

  it("is the loopback of an application for relative webhooks", async () => {
    await using catcher = await catchWebhooks({ socket: false });
    await using kit = await testService({ agents, webhooks: { loopback: catcher.fetch } });
    await kit.service.runs.wait(null, { assistant_id: "hello", input, webhook: "/hooks?a=1" });
    const { path, headers } = await catcher.next();
    assert.deepEqual([path, headers["x-webhook-depth"]], ["/hooks?a=1", "1"]);
  });

  it("keeps a body that is no JSON, and rejects invalid secrets", async () => {
    await using catcher = await catchWebhooks({ socket: true });
    for (const body of ["no json", "[1]", ""]) await fetch(catcher.url, { method: "POST", body });
    assert.deepEqual(
      catcher.received.map(({ text, body }) => [text, body]),
      [
        ["no json", {}],
        ["[1]", {}],
        ["", {}],
      ],
    );
    await assert.rejects(catchWebhooks({ secret: "whsec_short" }), /^TypeError: secret: must be whsec_/);
    await assert.rejects(catchWebhooks({ secret: [SECRET, "hunter2"], socket: false }), TypeError);
  });
});
