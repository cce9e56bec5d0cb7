/** Resolves names and sends requests with the modules of the runtime. */
import { type Environment, systemEnvironment } from "../environment.ts";
import type { Http, SendRequest } from "./http-client.ts";

export type { OutboundRequest, OutboundResponse, SendRequest } from "./http-client.ts";

/** Returns all addresses of a name, IPv4 and IPv6. Rejects, or returns none, when the name cannot be resolved. */
export type ResolveHost = (host: string) => Promise<readonly string[]>;

// The core is compiled without runtime types, so this declares the part of the module that is used here.
interface Dns {
  lookup(
    host: string,
    options: { readonly all: true; readonly verbatim: boolean },
  ): Promise<readonly { readonly address: string }[]>;
}
/** Imports a module of the runtime. The comments keep bundlers from resolving it. */
const importBuiltin = <Module>(name: string): Promise<Module> =>
  import(/* webpackIgnore: true */ /* @vite-ignore */ name) as Promise<Module>;

/**
 * Returns the transport by the resolver and the HTTP clients of `node:`. Returns null if the runtime lacks one of these
 * modules.
 */
export async function createSystemTransport(
  environment: Pick<Environment, "timer"> = systemEnvironment(),
): Promise<{ readonly resolve: ResolveHost; readonly send: SendRequest } | null> {
  try {
    const [http, https, dns] = await Promise.all([
      importBuiltin<Http>("node:http"),
      importBuiltin<Http>("node:https"),
      importBuiltin<Dns>("node:dns/promises"),
    ]);
    return {
      // The system's resolver instead of DNS queries: it reads /etc/hosts too. Its results are checked like any other.
      resolve: async (host) => (await dns.lookup(host, { all: true, verbatim: true })).map(({ address }) => address),
      /** Sends the request to one of the checked addresses. Rejects with a SendError, as `sendHttpRequest` does. */
      async send(request, addresses, signal) {
        const { sendHttpRequest } = await import("./http-client.ts");
        const { protocol } = new URL(request.url);
        return await sendHttpRequest({
          http: protocol === "https:" ? https : http,
          environment,
          request,
          addresses,
          signal,
        });
      },
    };
  } catch {
    return null;
  }
}
