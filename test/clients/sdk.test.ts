import { describe, it } from "node:test";
import { Client as Client1 } from "langgraph-sdk-1";
import { Client as Client2 } from "langgraph-sdk-2";
import { listen } from "../../adapters/standalone/listen.ts";
import { type Fetch, type Opened, sdkSuite } from "./sdk.ts";

const inProcess = async (handler: Fetch): Promise<Opened> => ({
  apiUrl: "http://greenroom",
  fetch: handler,
  close: async () => {},
});

async function overSocket(handler: Fetch): Promise<Opened> {
  // Bun hands its server on as a second argument.
  const listener = await listen((request) => handler(request), { hostname: "127.0.0.1", port: 0 });
  return { apiUrl: `http://127.0.0.1:${listener.port}`, fetch, close: () => listener.close() };
}

// What the suite calls is the same in both families; their declarations differ in places it does not use.
const sdks = { "SDK 2.0.0": Client2, "SDK 1.12.4": Client1 as unknown as typeof Client2 };

for (const [name, Sdk] of Object.entries(sdks)) {
  sdkSuite({ describe, it }, `${name} in process`, Sdk, inProcess);
  sdkSuite({ describe, it }, `${name} over a socket`, Sdk, overSocket);
}
