/**
 * The runtime's own HTTP server as the stand-alone server uses it, with one endless stream behind it and nothing else: what readers that
 * never read cost without Greenroom.
 */
import { serve } from "../../adapters/node/mod.ts";

/** The chunk size of `lib/http/streaming-body.ts` in bytes. */
const CHUNK = 4 * 1024;

function endless(): ReadableStream<Uint8Array> {
  return new ReadableStream(
    {
      async pull(controller) {
        // Others have their turn, as where a chunk is waited for.
        await new Promise((resolve) => setTimeout(resolve, 0));
        controller.enqueue(new Uint8Array(CHUNK).fill(65));
      },
    },
    { highWaterMark: 0 },
  );
}

const headers = { "content-type": "text/event-stream" };
const { port } = await serve(() => new Response(endless(), { headers }), { hostname: "127.0.0.1", port: 0 });
console.log(`Greenroom listening on http://127.0.0.1:${port}`);
