// One process of the Postgres bench: a service on a port. Arguments: the database's URL, `on`, `off` or `deaf` for its signals, and how
// many runs it executes at once.
import process from "node:process";
import { serve } from "../../adapters/node/mod.ts";
import { postgres } from "../../adapters/postgres/mod.ts";
import { createHandler } from "../../lib/http/handler.ts";
import { createService, fromFunctions } from "../../lib/mod.ts";

const [, , url, heard, concurrency] = process.argv;
const { signals, ...plain } = postgres({ url });
/** `deaf`: every signal is lost on its way. */
const storage = {
  on: { ...plain, signals },
  off: plain,
  deaf: { ...plain, signals: { publish() {}, subscribe: () => () => {} } },
}[heard];

const epoch = () => performance.timeOrigin + performance.now();
const agents = {
  echo: async ({ messages }) => ({ messages: [{ type: "ai", content: String(messages.at(-1)?.content) }] }),
  /** A run that takes so long, most of it waiting, as for a model. */
  slow: async ({ metadata, messages }) => {
    await new Promise((resolve) => setTimeout(resolve, metadata.ms));
    return { messages: [{ type: "ai", content: String(messages.at(-1)?.content) }] };
  },
  /** Yields a frame at an interval, with the time at which it was created. */
  async *ticks({ metadata, emit, signal }) {
    for (let n = 0; n < metadata.count && !signal.aborted; n++) {
      await new Promise((resolve) => setTimeout(resolve, metadata.every_ms));
      emit({ at: epoch(), n });
    }
    yield {};
  },
};
const service = await createService({
  storage,
  executor: fromFunctions(agents),
  worker: { concurrency: Number(concurrency) },
  limits: { pending: 1_000_000, pending_per_thread: 1_000 },
});
const { port } = await serve(createHandler(service), { hostname: "127.0.0.1", port: 0 });
process.on("SIGTERM", () => service.stop(1_000).then(() => process.exit(0)));
console.log(`listening on http://127.0.0.1:${port}`);
