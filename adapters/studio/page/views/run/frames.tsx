/** The frames of a run as they were sent. */
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { requestRoute } from "../../api/client.ts";
import { type EventFrame, readFrames } from "../../api/events.ts";
import { formatError } from "../../api/failure.ts";
import type { RunDetail } from "../../api/types.ts";
import { Json } from "../../parts/json.tsx";

const MAX_FRAMES = 1000;

/** Returns the parsed JSON, or the text if it is none. */
function parseData(data: string): unknown {
  try {
    return JSON.parse(data);
  } catch {
    return data;
  }
}

/**
 * Shows the id, the event and the beginning of the data of a frame. A press shows all of the data, as a tree, or hides
 * it.
 */
function FrameLine({ frame }: { readonly frame: EventFrame }): VNode {
  const [isOpen, setOpen] = useState(false);
  return (
    <li>
      <button type="button" class="frame-line" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <span class="faint">{frame.id}</span> <strong>{frame.event}</strong>
        <span class="faint">{frame.data.slice(0, 160)}</span>
      </button>
      {isOpen ? <Json value={parseData(frame.data)} open={2} /> : null}
    </li>
  );
}

/**
 * Shows the frames of a run as they arrive, up to a limit, and below them whether they are being read, at their end, or failed.
 */
export function Frames({ run }: { readonly run: RunDetail }): VNode {
  const [frames, setFrames] = useState<readonly EventFrame[]>([]);
  const [state, setState] = useState("reading");
  useEffect(() => {
    const abort = new AbortController();
    /** Reads the frames of the run from the start and adds each to the list. Rejects if the stream breaks. */
    const read = async (): Promise<void> => {
      const path = run.temporary ? `/runs/${run.run_id}/stream` : `/threads/${run.thread_id}/runs/${run.run_id}/stream`;
      const response = await requestRoute("GET", path, {
        signal: abort.signal,
        headers: { "last-event-id": "-1", accept: "text/event-stream" },
      });
      let total = 0;
      for await (const frame of response.body ? readFrames(response.body) : []) {
        setFrames((before) => [...before, frame]);
        if (++total >= MAX_FRAMES) break;
      }
      setState(total >= MAX_FRAMES ? `the first ${MAX_FRAMES}` : "end");
    };
    read().catch((error: unknown) => {
      if (!abort.signal.aborted) setState(formatError(error));
    });
    return () => abort.abort();
  }, [run.run_id]);
  return (
    <div>
      {state === "end" && frames.length === 0 ? (
        <p class="faint">The frames of this run are not kept any more.</p>
      ) : null}
      <ol class="frames">
        {frames.map((frame, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: frames stay in order
          <FrameLine key={index} frame={frame} />
        ))}
      </ol>
      <p class="faint">{state}</p>
    </div>
  );
}
