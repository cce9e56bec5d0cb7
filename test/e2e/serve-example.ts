/** Serves the default export of an example, named in the first argument, as Bun and `deno serve` do: on any runtime. */
import process from "node:process";
import { serve } from "../../adapters/node/mod.ts";
import type { Handler } from "../../lib/http/handler.ts";

let fetch: Handler | undefined;
const { port } = await serve((request) => (fetch as Handler)(request), { hostname: "127.0.0.1", port: 0 });
process.env.PUBLIC_BASE_URL = `http://127.0.0.1:${port}`;
const example = (await import(`../../examples/${process.argv[2]}`)) as {
  readonly default: { readonly fetch: Handler };
};
fetch = example.default.fetch;
console.log(`Listening on ${process.env.PUBLIC_BASE_URL}`);
