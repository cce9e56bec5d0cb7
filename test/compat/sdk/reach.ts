/** The releases of the SDK, and the ways in which each reaches a service. */
import { Client as Client1 } from "langgraph-sdk-1";
import { Client as Client115 } from "langgraph-sdk-1-15";
import { Client as Client2 } from "langgraph-sdk-2";
import { serve } from "../../../adapters/node/mod.ts";
import { openProxy } from "../../support/breaking-proxy.ts";
import type { Fetch, Opened } from "./bench.ts";

// What the suite calls is the same in both families; their declarations differ in places it does not use.
export const SDKS: Readonly<Record<"SDK 2.0.0" | "SDK 1.15.0" | "SDK 1.12.4", typeof Client2>> = {
  "SDK 2.0.0": Client2,
  "SDK 1.15.0": Client115 as unknown as typeof Client2,
  "SDK 1.12.4": Client1 as unknown as typeof Client2,
};

/** Bodies that can be broken, and that break when the request is aborted, as those of a network are. */
export async function inProcess(handler: Fetch): Promise<Opened> {
  const open = new Set<(error: Error) => void>();
  // A service's own timers do not keep a process alive; its listener does, and here is none.
  const alive = setInterval(() => {}, 60_000);
  return {
    apiUrl: "http://greenroom",
    async fetch(input, init) {
      const { body, status, headers } = await handler(input, init);
      if (!body) return new Response(null, { status, headers });
      const breakable = new TransformStream<Uint8Array, Uint8Array>({
        start(controller) {
          const fail = (error: Error): void => {
            open.delete(fail);
            controller.error(error);
          };
          open.add(fail);
          init?.signal?.addEventListener("abort", () => fail(new DOMException("aborted", "AbortError")));
        },
      });
      // The reader receives the error.
      const { readable } = breakable;
      body.pipeTo(breakable.writable).catch(() => {});
      return new Response(readable, { status, headers });
    },
    cut() {
      for (const fail of open) fail(new TypeError("terminated"));
    },
    close: async () => clearInterval(alive),
  };
}

/** Listens on a socket of the runtime. Bun passes its server as a second argument. */
export const overSocket = (handler: Fetch): Promise<Opened> => listen((request) => handler(request));

/** Starts a listener, and a proxy in front of it that breaks connections. */
export async function listen(handler: Parameters<typeof serve>[0]): Promise<Opened> {
  const listener = await serve(handler, { hostname: "127.0.0.1", port: 0 });
  const proxy = await openProxy(listener.port);
  return {
    apiUrl: `http://127.0.0.1:${proxy.port}`,
    fetch,
    cut: proxy.cut,
    async close() {
      await proxy.close();
      await listener.close();
    },
  };
}
