/** Listening on the runtime at hand. */
import type { Fetch } from "../node/mod.ts";

export interface Listener {
  readonly port: number;
  /** Takes no new connections. Resolves when the open ones are answered and closed. */
  close(): Promise<void>;
}

interface Address {
  readonly hostname: string;
  readonly port: number;
}

/** What is used of the globals of Bun and Deno: their own types exclude each other. */
interface Runtimes {
  readonly Bun?: {
    serve(options: Address & { readonly fetch: Fetch; readonly idleTimeout: number; readonly reusePort: boolean }): {
      readonly port: number;
      stop(closeActiveConnections?: boolean): Promise<void>;
    };
  };
  readonly Deno?: {
    serve(
      options: Address & { readonly onListen: () => void },
      handler: Fetch,
    ): { readonly addr: { readonly port: number }; shutdown(): Promise<void> };
    readonly errors: { readonly AddrInUse: new () => Error };
  };
}

const { Bun, Deno } = globalThis as unknown as Runtimes;

/** Thrown by `listen` when another process has the port. */
export class PortTaken extends Error {
  constructor(port: number, options?: ErrorOptions) {
    super(`Port ${port} is taken`, options);
    this.name = "PortTaken";
  }
}

/** Resolves once connections are accepted. Port 0 takes any free one. */
export async function listen(handler: Fetch, address: Address): Promise<Listener> {
  try {
    if (Bun) {
      // Bun ends connections on which no byte has moved for so many seconds: clients that read nothing. Quiet streams and
      // waits beat more often; what else is silent has that long for its answer.
      const server = Bun.serve({ ...address, fetch: handler, idleTimeout: 60, reusePort: false });
      return { port: server.port, close: () => server.stop() };
    }
    if (Deno) {
      const server = Deno.serve({ ...address, onListen() {} }, handler);
      return { port: server.addr.port, close: () => server.shutdown() };
    }
    // Loaded here because it takes as long as the rest of the start on the other runtimes, which have no use for it.
    return await (await import("../node/mod.ts")).serve(handler, address);
  } catch (error) {
    const taken =
      (error as { code?: unknown }).code === "EADDRINUSE" || (Deno && error instanceof Deno.errors.AddrInUse);
    throw taken ? new PortTaken(address.port, { cause: error }) : error;
  }
}
