/** The client of `greenroom/client`, over the sockets of every runtime. */

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { Client as Client19 } from "langgraph-sdk-1-9";
import { Client as Client115 } from "langgraph-sdk-1-15";
import { Client as Client2 } from "langgraph-sdk-2";
import { client, RunFailed } from "../../adapters/client.ts";
import { serve } from "../../adapters/node/mod.ts";
import { RunFailed as RunFailedInProcess } from "../../lib/mod.ts";
import { type AgentHarness, agentCallsSuite, openService, runWithFeedback } from "../support/agent-calls.ts";

type SdkClient = Exclude<Parameters<typeof client>[0], { readonly apiUrl?: string }>;

/** Opens a server, and a client of the SDK for it. */
const open = (connect: (apiUrl: string) => Parameters<typeof client>[0]) => async (): Promise<AgentHarness> => {
  const { fetch, service, ...place } = await openService();
  const listener = await serve((request) => fetch(request), { hostname: "127.0.0.1", port: 0 });
  const { agent } = client<Record<string, never>>(connect(`http://127.0.0.1:${listener.port}`));
  return {
    agent: agent as AgentHarness["agent"],
    service,
    async [Symbol.asyncDispose]() {
      await place[Symbol.asyncDispose]();
      await listener.close();
    },
  };
};

const CLIENTS: Readonly<Record<string, (apiUrl: string) => Parameters<typeof client>[0]>> = {
  "its own SDK": (apiUrl) => ({ apiUrl }),
  "SDK 1.9.15": (apiUrl) => new Client19({ apiUrl }) as unknown as SdkClient,
  "SDK 1.15.0": (apiUrl) => new Client115({ apiUrl }) as unknown as SdkClient,
  "SDK 2.0.0": (apiUrl) => new Client2({ apiUrl }) as unknown as SdkClient,
};

for (const [name, connect] of Object.entries(CLIENTS)) {
  agentCallsSuite({ describe, it, before, after }, `A client with ${name}`, open(connect));
}

describe("client", () => {
  it("sends feedback keys, and returns values without the links", async () => {
    await using place = await open((apiUrl) => ({ apiUrl }))();
    await runWithFeedback(place);
  });
  it("throws the service's class RunFailed", () => assert.equal(RunFailed, RunFailedInProcess));
  it("uses the client of the SDK that it received", () => {
    const sdk = new Client2({ apiUrl: "http://127.0.0.1:9" }) as unknown as SdkClient;
    assert.equal(client<object>(sdk).sdk, sdk);
  });
});
