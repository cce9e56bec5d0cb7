import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { AuthContext } from "../../../lib/auth/custom.ts";
import type { JsonObject } from "../../../lib/json.ts";
import { serviceInternals } from "../../../lib/service.ts";
import { until } from "../../support/until.ts";
import { UNKNOWN } from "./custom.harness.ts";
import { customWorld, owning } from "./custom-auth.harness.ts";

describe("rows of a user of custom authentication", () => {
  it("are visible to their creator only, with the handler of the SDK's documentation", async () => {
    await using world = await customWorld({ on: { "*": owning } });
    const { thread_id } = (await world.ask("ann", "POST", "/threads", {})).body;
    const run = { assistant_id: "agent", input: { a: 1 } };
    assert.equal((await world.ask("ann", "POST", `/threads/${thread_id}/runs/wait`, run)).status, 200);
    for (const strategy of ["reject", "create"]) {
      const body = { ...run, if_not_exists: strategy };
      const { status } = await world.ask("bob", "POST", `/threads/${thread_id}/runs/wait`, body);
      assert.equal(status, strategy === "create" ? 409 : 404);
    }
    for (const if_exists of ["raise", "do_nothing"]) {
      const { status } = await world.ask("bob", "POST", "/threads", { thread_id, if_exists });
      assert.equal(status, 409, if_exists);
    }
    assert.equal((await world.ask("ann", "POST", "/threads", { thread_id, if_exists: "do_nothing" })).status, 200);
    assert.equal((await world.ask("bob", "POST", "/threads/count", {})).text, "0");
    assert.equal((await world.ask("ann", "POST", "/threads/count", {})).text, "1");
  });

  it("include stateless runs and threads that runs create", async () => {
    await using world = await customWorld({ on: { "*": owning } });
    for (const on_completion of ["delete", "keep"]) {
      const body = { assistant_id: "agent", input: { a: 1 }, on_completion };
      const { run_id, thread_id } = (await world.ask("ann", "POST", "/runs", body)).body;
      const stream = `/runs/${run_id}/stream`;
      assert.match((await world.ask("ann", "GET", stream)).text, /event: end/);
      assert.equal((await world.ask("bob", "GET", stream)).status, 404);
      assert.equal((await world.ask("ann", "GET", `/threads/${thread_id}/runs/${run_id}`)).status, 200);
      assert.equal((await world.ask("bob", "GET", `/threads/${thread_id}/runs/${run_id}`)).status, 404);
      assert.equal(
        (await world.ask("ann", "GET", `/threads/${thread_id}/runs/${run_id}/join`)).body.said !== undefined,
        true,
      );
      const threadStatus = on_completion === "keep" ? 200 : 404;
      assert.equal((await world.ask("ann", "GET", `/threads/${thread_id}`)).status, threadStatus);
    }
    const threadPath = `/threads/${UNKNOWN}`;
    const body = { assistant_id: "agent", if_not_exists: "create" };
    assert.equal((await world.ask("ann", "POST", `${threadPath}/runs/wait`, body)).status, 200);
    assert.equal(((await world.ask("ann", "GET", threadPath)).body.metadata as JsonObject).owner, "ann");
    assert.equal((await world.ask("bob", "GET", threadPath)).status, 404);
  });

  it("get the equalities of the filter as metadata if the host enables it", async () => {
    const on = { "*": ({ user }: AuthContext) => ({ owner: user.identity, team: { $contains: "a" } }) };
    await using plain = await customWorld({ on });
    assert.deepEqual((await plain.ask("ann", "POST", "/threads", {})).body.metadata, {});
    const equal = { "*": ({ user }: AuthContext) => ({ owner: { $eq: user.identity } }) };
    await using world = await customWorld({ on: equal, auth: { merge_filter_on_create: true } });
    const thread = (await world.ask("ann", "POST", "/threads", { metadata: { owner: "bob", a: 1 } })).body;
    assert.deepEqual(thread.metadata, { owner: "ann", a: 1 });
    assert.equal((await world.ask("ann", "GET", `/threads/${thread.thread_id}`)).status, 200);
    const assistant = (await world.ask("ann", "POST", "/assistants", { graph_id: "agent" })).body;
    assert.deepEqual(assistant.metadata, { owner: "ann" });
    const { run_id } = (await world.ask("ann", "POST", "/runs", { assistant_id: "agent" })).body;
    assert.equal((await world.ask("ann", "GET", `/runs/${run_id}/stream`)).status, 200);
    const cron = { assistant_id: "agent", schedule: "0 0 1 1 *" };
    assert.deepEqual((await world.ask("ann", "POST", "/runs/crons", cron)).body.metadata, { owner: "ann" });
  });

  it("cannot be run by others, but all users can run the default assistant of a graph", async () => {
    await using world = await customWorld({ on: { "*": owning } });
    const { assistant_id } = (await world.ask("ann", "POST", "/assistants", { graph_id: "agent" })).body;
    const run = (as: string, id: unknown) => world.ask(as, "POST", "/runs/wait", { assistant_id: id, input: {} });
    assert.equal((await run("ann", assistant_id)).status, 200);
    const foreignRun = await run("bob", assistant_id);
    const absent = await run("bob", UNKNOWN);
    assert.equal(foreignRun.status, 404);
    assert.equal(foreignRun.text.replace(String(assistant_id), "ID"), absent.text.replace(UNKNOWN, "ID"));
    assert.equal((await run("bob", "agent")).status, 200);
    assert.equal((await world.ask("bob", "GET", "/assistants/agent")).status, 404);
    const batch = [{ assistant_id: "agent" }, { assistant_id }];
    assert.equal((await world.ask("bob", "POST", "/runs/batch", batch)).status, 404);
    assert.equal((await world.ask("ann", "POST", "/runs/batch", batch)).status, 200);
  });

  it("can be created by default assistants although the handler forbids assistants", async () => {
    await using world = await customWorld({ on: { assistants: () => false, threads: owning } });
    const id = (await world.it.service.assistants.get("agent")).assistant_id;
    for (const assistant_id of ["agent", id, id.toUpperCase()]) {
      const { status } = await world.ask("ann", "POST", "/runs/wait", { assistant_id, input: {} });
      assert.equal(status, 200, assistant_id);
    }
    const { assistant_id } = await world.it.service.assistants.create({ graph_id: "agent" });
    for (const excludedId of [assistant_id, UNKNOWN]) {
      assert.equal((await world.ask("ann", "POST", "/runs/wait", { assistant_id: excludedId })).status, 403);
    }
    assert.equal((await world.ask("ann", "GET", "/assistants/agent")).status, 403);
    assert.equal((await world.ask("ann", "POST", "/assistants/search", {})).status, 403);
  });

  it("are deleted with their assistant only if the threads may be deleted", async () => {
    await using world = await customWorld({
      on: {
        "threads:create": ({ value, user }) => void Object.assign(value.metadata as object, { owner: user.identity }),
        "threads:delete": ({ user }) => ({ owner: user.identity }),
      },
    });
    const { assistant_id } = (await world.ask("ann", "POST", "/assistants", { graph_id: "agent" })).body;
    const threadBody = { metadata: { assistant_id } };
    const threads = [
      await world.ask("ann", "POST", "/threads", threadBody),
      await world.ask("bob", "POST", "/threads", threadBody),
    ];
    assert.equal((await world.ask("ann", "DELETE", `/assistants/${assistant_id}?delete_threads=true`)).status, 204);
    const reads = threads.map(({ body }) => world.ask("ann", "GET", `/threads/${body.thread_id}`));
    assert.deepEqual(
      (await Promise.all(reads)).map(({ status }) => status),
      [404, 200],
    );
  });

  it("are not returned to others by the same Idempotency-Key", async () => {
    await using world = await customWorld({ on: { "*": owning } });
    const post = (as: string) =>
      world.ask(as, "POST", "/runs", { assistant_id: "agent", input: {} }, { "idempotency-key": "k" });
    const [first, again, foreignRun] = [await post("ann"), await post("ann"), await post("bob")];
    assert.equal(again.body.run_id, first.body.run_id);
    assert.equal(foreignRun.status, 200);
    assert.notEqual(foreignRun.body.run_id, first.body.run_id);
  });

  it("have the id that the authorization handler received", async () => {
    await using world = await customWorld({ on: { "threads:create_run": () => true } });
    const { thread_id } = (await world.ask("ann", "POST", "/threads", {})).body;
    const takeRunIds = (): unknown[] => world.takeContexts().map(({ value }) => "run_id" in value && value.run_id);
    const run = { assistant_id: "agent", input: {} };
    for (const path of ["/runs", `/threads/${thread_id}/runs`]) {
      const { run_id } = (await world.ask("ann", "POST", path, run)).body;
      assert.deepEqual(takeRunIds(), [run_id], path);
      for (const verb of ["stream", "wait"]) {
        const { headers } = await world.ask("ann", "POST", `${path}/${verb}`, run);
        assert.deepEqual(takeRunIds(), [headers.get("content-location")?.split("/").at(-1)], `${path}/${verb}`);
      }
    }
    const batch = (await world.ask("ann", "POST", "/runs/batch", [run, run, run])).body as unknown as JsonObject[];
    assert.deepEqual(
      takeRunIds(),
      batch.map(({ run_id }) => run_id),
    );
    const key = { "idempotency-key": "k" };
    const [first, again] = [
      await world.ask("ann", "POST", "/runs", run, key),
      await world.ask("ann", "POST", "/runs", run, key),
    ];
    assert.equal(first.body.run_id, again.body.run_id);
    assert.equal(takeRunIds()[0], first.body.run_id);
  });

  it("cannot be cancelled by others, by any id or status", async () => {
    await using world = await customWorld({ on: { "*": owning } });
    const { thread_id } = (await world.ask("ann", "POST", "/threads", {})).body;
    const later = { assistant_id: "agent", after_seconds: 3600 };
    const { run_id } = (await world.ask("ann", "POST", `/threads/${thread_id}/runs`, later)).body;
    const nothing = await world.ask("bob", "POST", "/runs/cancel", { status: "all" });
    assert.deepEqual(
      [nothing.status, nothing.body],
      [404, { detail: "No run is pending or running", code: "not_found" }],
    );
    assert.equal((await world.ask("bob", "POST", "/runs/cancel", { thread_id, run_ids: [run_id] })).status, 404);
    const run = `/threads/${thread_id}/runs/${run_id}`;
    assert.equal((await world.ask("bob", "POST", `${run}/cancel`)).status, 404);
    assert.equal((await world.ask("ann", "GET", run)).body.status, "pending");
    assert.equal((await world.ask("ann", "POST", "/runs/cancel?action=rollback", { status: "all" })).status, 204);
    assert.equal((await world.ask("ann", "GET", run)).status, 404);
  });

  it("are cancelled on disconnect only if the caller may cancel them", async () => {
    const shared = ({ value }: AuthContext): void => {
      if ("metadata" in value) value.metadata = { ...(value.metadata as JsonObject | null), owner: "ann" };
    };
    const update = ({ user }: AuthContext) => (user.identity === "eve" ? false : { owner: user.identity });
    await using world = await customWorld({ on: { threads: shared, "threads:update": update } });
    const { thread_id } = (await world.ask("ann", "POST", "/threads", {})).body;
    const later = { assistant_id: "agent", after_seconds: 3600 };
    const { run_id } = (await world.ask("ann", "POST", `/threads/${thread_id}/runs`, later)).body;
    const run = `/threads/${thread_id}/runs/${run_id}`;
    const leaves = async (as: string, path: string): Promise<number> => {
      const headers = { authorization: `Bearer ${as}` };
      const answer = await world.it.fetch(`http://greenroom${path}`, { headers });
      await answer.body?.cancel();
      return answer.status;
    };
    for (const path of [`${run}/join`, `${run}/stream`, `/runs/${run_id}/stream`]) {
      assert.equal(await leaves("bob", `${path}?cancel_on_disconnect=1`), 404, path);
      assert.equal(await leaves("eve", `${path}?cancel_on_disconnect=1`), 403, path);
      assert.equal(await leaves("bob", path), 200, path);
    }
    assert.equal((await world.ask("ann", "GET", run)).body.status, "pending");
    world.takeContexts();
    assert.equal(await leaves("ann", `${run}/stream?cancel_on_disconnect=1`), 200);
    const contexts: unknown[] = [];
    await until(() => contexts.push(...world.takeContexts().map(({ event, value }) => [event, value])) === 3);
    const cancel = ["threads:update", { thread_id, action: "interrupt", metadata: { run_ids: [run_id] } }];
    // One call when it joins, and one when it disconnects.
    assert.deepEqual(contexts, [["threads:read", { thread_id, run_id }], cancel, cancel]);
  });

  describe("with handlers that return a filter and write nothing", () => {
    const filtering = ({ user }: AuthContext): JsonObject => ({ owner: user.identity });
    const metadata = { owner: "ann", n: 1 };
    const refused = { detail: "metadata.owner: with this value you could not see it", code: "forbidden" };
    const cron = { assistant_id: "agent", schedule: "0 0 1 1 *" };

    it("cannot be given away by an update", async () => {
      await using world = await customWorld({ on: { "*": filtering } });
      const ann = (method: string, path: string, body?: unknown) => world.ask("ann", method, path, body);
      const { thread_id } = (await ann("POST", "/threads", { metadata })).body;
      const { assistant_id } = (await ann("POST", "/assistants", { graph_id: "agent", metadata })).body;
      const { cron_id } = (await ann("POST", "/runs/crons", { ...cron, metadata })).body;
      for (const path of [`/threads/${thread_id}`, `/assistants/${assistant_id}`, `/runs/crons/${cron_id}`]) {
        for (const owner of ["bob", null, ["ann"]]) {
          const answer = await ann("PATCH", path, { metadata: { owner, n: 2 } });
          assert.deepEqual([answer.status, answer.body], [403, refused], path);
          assert.deepEqual((await ann("GET", path)).body.metadata, { ...metadata }, path);
          assert.equal((await world.ask("bob", "GET", path)).status, 404, path);
        }
        assert.equal((await ann("PATCH", path, { metadata: { owner: "ann", n: 3 } })).status, 200, path);
        assert.equal((await ann("PATCH", path, { metadata: { n: 1 } })).status, 200, path);
        assert.equal((await world.ask("bob", "PATCH", path, { metadata: { owner: "bob" } })).status, 404, path);
      }
    });

    it("cannot be created with metadata of another owner, by any route", async () => {
      await using world = await customWorld({ on: { "*": filtering } });
      const ann = (method: string, path: string, body?: unknown) => world.ask("ann", method, path, body);
      const bobs = { metadata: { owner: "bob" } };
      const run = { assistant_id: "agent", ...bobs };
      const thread_id = serviceInternals(world.it.service).environment.uuid();
      for (const [path, body] of [
        ["/threads", bobs],
        ["/assistants", { graph_id: "agent", ...bobs }],
        ["/runs/crons", { ...cron, ...bobs }],
        ["/runs", run],
        ["/runs/wait", { ...run, on_completion: "keep" }],
        ["/runs/batch", [{ assistant_id: "agent" }, run]],
        [`/threads/${thread_id}/runs`, { ...run, if_not_exists: "create" }],
        [`/threads/${thread_id}/runs/crons`, { ...cron, ...bobs, if_not_exists: "create" }],
      ] as const) {
        const answer = await ann("POST", path, body);
        assert.deepEqual([answer.status, answer.body], [403, refused], path);
      }
      assert.deepEqual((await world.ask("bob", "POST", "/threads/search", {})).body, []);
      assert.deepEqual((await world.ask("bob", "POST", "/runs/crons/search", {})).body, []);
      // Rows without an owner are visible to nobody.
      assert.equal((await ann("POST", "/threads", { metadata: { n: 1 } })).status, 200);
      assert.equal((await ann("POST", "/runs", { assistant_id: "agent", metadata })).status, 200);
      // The metadata of a run is not copied to its existing thread.
      const ownThread = (await ann("POST", "/threads", { metadata })).body.thread_id;
      assert.equal((await ann("POST", `/threads/${ownThread}/runs`, run)).status, 200);
      assert.equal(((await ann("GET", `/threads/${ownThread}`)).body.metadata as JsonObject).owner, "ann");
    });

    it("stay with their owner when others may read and copy them", async () => {
      const on = { "*": filtering, "threads:read": () => true };
      await using world = await customWorld({ on });
      const { thread_id } = (await world.ask("ann", "POST", "/threads", { metadata })).body;
      const copied = await world.ask("bob", "POST", `/threads/${thread_id}/copy`);
      assert.deepEqual([copied.status, copied.body], [403, refused]);
      assert.equal((await world.ask("ann", "POST", "/threads/count", {})).text, "1");
      assert.equal((await world.ask("ann", "POST", `/threads/${thread_id}/copy`)).status, 200);
    });

    it("cannot be reset to a version of another owner", async () => {
      await using world = await customWorld({ on: { "*": filtering } });
      const { assistants } = world.it.service;
      const { assistant_id } = await assistants.create({ graph_id: "agent", metadata: { owner: "bob" } });
      await assistants.update(assistant_id, { metadata: { owner: "ann" } });
      const latest = `/assistants/${assistant_id}/latest`;
      const refused = await world.ask("ann", "POST", latest, { version: 1 });
      assert.equal(refused.status, 403, refused.text);
      assert.equal((await world.ask("ann", "GET", `/assistants/${assistant_id}`)).body.version, 2);
      assert.equal((await world.ask("ann", "POST", latest, { version: 2 })).status, 200);
    });
  });
});
