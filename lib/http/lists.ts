/** JSON lists that are sent while they are made. */
import type { StreamGuard } from "../streams/stream-guard.ts";
import { type ByteHold, ClientGone } from "./byte-budget.ts";
import { type HeaderValues, LARGE_BYTES, type PageHead, pageHeaders } from "./respond.ts";
import type { RequestContext } from "./route.ts";
import { createTextBody, type TextBody } from "./text-body.ts";

/** Reads the next items. It may be called again if the server has no room for them, and changes nothing. */
type ReadItems = () => object | readonly object[] | Promise<object | readonly object[]>;

/** Makes the items of a list: `add` resolves when the next ones may be read. */
type ListMaker = (add: (read: ReadItems) => Promise<void>) => Promise<void>;

/** A list with more characters is sent while it is made, and the event loop ticks after each part of this size. */
const PART_CHARS = 256 * 1024;

type ListContext = Pick<RequestContext, "tick" | "request_id" | "handler" | "guard" | "large">;

/** The text of some items, and the bytes that it holds. */
interface ListPart {
  readonly text: string;
  readonly bytes: ByteHold | null;
}

/**
 * A JSON list. `headers` are read when the first item is made. A failure after that breaks the connection off, as does a caller who
 * loses the permission. Large items take from the byte budget until they are sent.
 */
export function jsonList(
  { tick, request_id, handler, guard, large }: ListContext,
  make: ListMaker,
  headers: HeaderValues = {},
): Promise<Response> {
  const { environment } = handler.bodies;
  return new Promise((answer, refuse) => {
    let text = "[";
    let isFirst = true;
    let body: TextBody | undefined;
    let lastChars = 0;
    let openGuard: StreamGuard | undefined;
    const respond = (content: BodyInit): void =>
      answer(new Response(content, { headers: { "content-type": "application/json", ...headers } }));

    const check = (): void => {
      if (body?.isEnded || large.isGone()) throw new ClientGone();
    };

    function open(): TextBody {
      const onEnd = (): void => {
        openGuard?.close();
        large.leave();
      };
      const opened = createTextBody({ environment, stalled_ms: large.stalled_ms, onEnd });
      openGuard = guard(opened.fail);
      respond(opened.stream);
      return opened;
    }

    // A function of its own: while the list waits, nothing refers to the items.
    async function tryRead(read: ReadItems, bytes: ByteHold | null): Promise<ListPart | { readonly missing: number }> {
      const items = [await read()].flat();
      const part = items.map((item) => JSON.stringify(item)).join(",");
      if (part.length <= LARGE_BYTES) {
        bytes?.release();
        return { text: part, bytes: null };
      }
      if (bytes?.resize(part.length)) return { text: part, bytes };
      bytes?.release();
      const taken = large.tryTake(part.length);
      return taken ? { text: part, bytes: taken } : { missing: part.length };
    }

    async function readPart(read: ReadItems): Promise<ListPart> {
      // The items of a list are alike: this one is probably as large as the last.
      let size = lastChars > LARGE_BYTES ? lastChars : 0;
      for (;;) {
        const part = await tryRead(read, size > 0 ? await large.take(size, body !== undefined) : null);
        if ("text" in part) return part;
        size = part.missing;
      }
    }

    async function send(...more: readonly string[]): Promise<void> {
      body ??= open();
      const sent = text;
      text = "";
      // One after the other: together they would be copied.
      for (const part of [sent, ...more]) await body.send(part);
      await tick();
    }

    const made = make(async (read) => {
      check();
      const part = await readPart(read);
      lastChars = part.text.length;
      if (part.text === "") return;
      if (!isFirst) text += ",";
      isFirst = false;
      try {
        if (part.text.length > PART_CHARS) return await send(part.text);
        text += part.text;
        if (text.length > PART_CHARS) await send();
      } finally {
        part.bytes?.release();
      }
    });
    made.then(
      async () => {
        text += "]";
        if (!body) return respond(text);
        await body.send(text).then(body.close, () => {});
      },
      (error: unknown) => {
        if (!body) return refuse(error);
        if (body.isEnded) return;
        if (!(error instanceof ClientGone)) {
          environment.log({ level: "error", message: "Reading a list failed", request_id, error });
        }
        body.fail(error);
      },
    );
  });
}

/** What a search calls: `begin` once, then `add` for each item. `check` throws once the client has disconnected. */
interface PageSteps {
  begin(page: PageHead): void;
  add(read: ReadItems): Promise<void>;
  check(): void;
}

/** One page of a search that makes its items one by one. */
export function pagedList(context: ListContext, make: (steps: PageSteps) => Promise<void>): Promise<Response> {
  const headers: Record<string, string> = {};
  const begin = (page: PageHead): void => void Object.assign(headers, pageHeaders(page));
  const check = (): void => {
    if (context.large.isGone()) throw new ClientGone();
  };
  return jsonList(context, (add) => make({ begin, add, check }), headers);
}
