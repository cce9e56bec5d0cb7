/** Reads the thread as clients of the API see it, and the request for a person in the studio. */
import type { JsonObject } from "../../lib/json.ts";

type Fetch = (request: Request) => Promise<Response>;

interface Shown {
  readonly status: string;
  /** The number of pending interrupts. */
  readonly open: number;
  readonly in_inbox: boolean;
}

/** A thread whose questions nobody has to answer. */
export const CLOSED: Shown = { status: "idle", open: 0, in_inbox: false };
export const ASKING: Shown = { status: "interrupted", open: 1, in_inbox: true };

export async function readShownThread(fetch: Fetch, thread_id: string): Promise<Shown> {
  const get = async (path: string) =>
    (await (await fetch(new Request(`http://127.0.0.1${path}`))).json()) as JsonObject;
  const { status, interrupts } = await get(`/threads/${thread_id}`);
  const { items } = await get("/greenroom/inbox");
  return {
    status: status as string,
    open: Object.values(interrupts as JsonObject).flat().length,
    in_inbox: (items as JsonObject[]).some((item) => item.thread_id === thread_id),
  };
}
