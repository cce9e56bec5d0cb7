/** JSON lists that are sent while they are made. */
import { type HeaderValues, type PageHead, pageHeaders } from "./respond.ts";
import type { RequestContext } from "./route.ts";

/** Makes the items of a list: `add` resolves when the next one may be made. */
type ListMaker = (add: (item: object) => Promise<void>) => Promise<void>;

/** A list with more characters is sent while it is made, and the event loop ticks after each part of this size. */
const LARGE = 256 * 1024;

/** The size of a chunk of such a list, in bytes. */
const PIECE = 64 * 1024;
/** A reader that takes no chunk for this long is disconnected. */
const STALLED_MS = 30_000;

type ListContext = Pick<RequestContext, "tick" | "request_id" | "handler" | "watch">;

/**
 * A JSON list. `headers` are read when the first item is made. A failure after that breaks the connection off, as does a caller who
 * loses the permission.
 */
export function jsonList(
  { tick, request_id, handler, watch }: ListContext,
  make: ListMaker,
  headers: HeaderValues = {},
): Promise<Response> {
  const { environment } = handler.bodies;
  return new Promise((answer, refuse) => {
    const encoder = new TextEncoder();
    let text = "[";
    let first = true;
    let stream: ReadableStreamDefaultController<Uint8Array> | undefined;
    let left = false;
    let wanted = (): void => {};
    let stopWatching = (): void => {};
    const respond = (body: BodyInit): void =>
      answer(new Response(body, { headers: { "content-type": "application/json", ...headers } }));

    function leave(error?: unknown): void {
      if (left) return;
      left = true;
      stopWatching();
      wanted();
      if (error !== undefined) stream?.error(error);
    }

    const check = (): void => {
      if (left) throw new Error("The list has no reader any more");
    };

    function open(): void {
      const body = new ReadableStream<Uint8Array>({
        start: (controller) => {
          stream = controller;
        },
        pull: () => wanted(),
        cancel: () => leave(),
      });
      stopWatching = watch(leave);
      respond(body);
    }

    /** Resolves when the reader wants more, or has left. */
    async function room(): Promise<void> {
      if (left || (stream?.desiredSize ?? 0) > 0) return;
      await new Promise<void>((resolve) => {
        const cancel = environment.timer(STALLED_MS, () => leave(new Error("The client does not read")));
        wanted = () => {
          cancel();
          resolve();
        };
      });
    }

    async function send(): Promise<void> {
      if (!stream) open();
      const bytes = encoder.encode(text);
      text = "";
      for (let from = 0; from < bytes.length; from += PIECE) {
        check();
        stream?.enqueue(bytes.subarray(from, from + PIECE));
        await room();
      }
      await tick();
    }

    const made = make(async (item) => {
      check();
      text += `${first ? "" : ","}${JSON.stringify(item)}`;
      first = false;
      if (text.length > LARGE) await send();
    });
    made.then(
      () => {
        text += "]";
        if (!stream) return respond(text);
        if (left) return;
        stopWatching();
        stream.enqueue(encoder.encode(text));
        stream.close();
      },
      (error: unknown) => {
        if (!stream) return refuse(error);
        if (left) return;
        environment.log({ level: "error", message: "Reading a list failed", request_id, error });
        leave(error);
      },
    );
  });
}

/** One page of a search that makes its items one by one; it calls `begin` first. */
export function pagedList(
  context: ListContext,
  make: (begin: (page: PageHead) => void, add: (item: object) => Promise<void>) => Promise<void>,
): Promise<Response> {
  const headers: Record<string, string> = {};
  const begin = (page: PageHead): void => void Object.assign(headers, pageHeaders(page));
  return jsonList(context, (add) => make(begin, add), headers);
}
