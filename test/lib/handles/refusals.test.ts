/** The thread that a call creates for its run, when the run is refused. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { client } from "../../../adapters/client.ts";
import { serve } from "../../../adapters/node/mod.ts";
import { toStorageError } from "../../../lib/errors.ts";
import { isRefusal } from "../../../lib/handles/refusals.ts";
import type { AgentHandle } from "../../../lib/handles/types.ts";
import { createHandler } from "../../../lib/http/handler.ts";
import type { Service } from "../../../lib/mod.ts";
import { testService } from "../../suite/kit.ts";
import { keepAlive } from "../../support/alive.ts";
import { createFaultyStorage } from "../../support/faulty.ts";

const agents = { ok: () => ({ ok: true }) };

type Reach = (service: Service) => Promise<{ readonly handle: AgentHandle; close(): Promise<void> }>;

const REACHES: Readonly<Record<string, Reach>> = {
  "in process": async (service) => ({ handle: service.agent("ok"), close: async () => {} }),
  "over HTTP": async (service) => {
    const listener = await serve(createHandler(service), { hostname: "127.0.0.1", port: 0 });
    const { agent } = client<typeof agents>({ apiUrl: `http://127.0.0.1:${listener.port}` });
    return { handle: agent("ok") as AgentHandle, close: () => listener.close() };
  },
};

/** Every way in which a handle creates a run. */
const CALLS: Readonly<Record<string, (handle: AgentHandle) => Promise<unknown>>> = {
  run: (handle) => handle.run({}),
  start: (handle) => handle.start({}),
  stream: (handle) => handle.stream({}).run,
};

describe("the new thread of a run", () => {
  keepAlive();

  for (const [reach, open] of Object.entries(REACHES)) {
    for (const [name, call] of Object.entries(CALLS)) {
      it(`is deleted if ${name} is refused by a limit, ${reach}`, async () => {
        await using kit = await testService({ agents, limits: { pending: 1 }, worker: { concurrency: 0 } });
        const { handle, close } = await open(kit.service);
        await handle.start({});
        await assert.rejects(call(handle), /The deployment has 1 pending runs/);
        assert.equal(await kit.service.threads.count(), 1);
        await close();
      });

      it(`stays if it is not known whether ${name} has created the run, ${reach}`, async () => {
        const { storage, faults } = createFaultyStorage();
        await using kit = await testService({ agents, storage, environment: { log: () => {} } });
        const { handle, close } = await open(kit.service);
        faults.createRun = async () => {
          throw toStorageError({ unknown: true });
        };
        await assert.rejects(call(handle), /whether it took effect is not known/);
        assert.equal(await kit.service.threads.count(), 1);
        await close();
      });
    }
  }

  it("stays after errors that say nothing of the run", () => {
    for (const status of [undefined, 408, 429, 500, 502, 503, 507]) assert.equal(isRefusal(status, "internal"), false);
    for (const status of [400, 403, 404, 409, 413, 422]) assert.equal(isRefusal(status, "conflict"), true);
  });
});
