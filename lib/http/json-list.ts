/** Creates responses with JSON lists, which are sent while their items are produced. */
import type { StreamGuard } from "../streams/stream-guard.ts";
import { type ByteReservation, ClientDisconnectedError } from "./byte-budget.ts";
import { type HeaderValues, LARGE_BYTES, type PageInfo, toPageHeaders } from "./respond.ts";
import type { RequestContext } from "./route.ts";
import { createTextBody, type TextBody } from "./text-body.ts";

/** Reads the next items. It has no side effects, and is called again if the items did not fit the byte budget. */
type ReadItems = () => object | readonly object[] | Promise<object | readonly object[]>;

/** Produces the items of a list. `add` resolves when the next items may be read. */
type ListProducer = (add: (read: ReadItems) => Promise<void>) => Promise<void>;

/** The size from which a list is sent in parts. The event loop ticks after each part. */
const PART_CHARS = 256 * 1024;

type ListContext = Pick<RequestContext, "waitForNextTick" | "request_id" | "handler" | "guard" | "bodyBudget">;

/** The text of some items, and the bytes that it reserves. */
interface ListPart {
  readonly text: string;
  readonly reservation: ByteReservation | null;
}

/**
 * Creates a response with a JSON list. Reads `headers` when it responds, which is after the first items. Rejects if reading fails
 * before that; a later failure breaks off the body, as does the loss of the permission. Large items reserve bytes of the budget
 * until they are sent.
 */
export function createListResponse(
  context: ListContext,
  addItems: ListProducer,
  headers: HeaderValues = {},
): Promise<Response> {
  return new Promise((resolve, reject) => {
    const respond = (content: BodyInit): void =>
      resolve(new Response(content, { headers: { "content-type": "application/json", ...headers } }));
    const list = new ListText(context, respond);
    addItems((read) => list.add(read)).then(
      () => list.end(),
      (error: unknown) => {
        if (!list.fail(error)) reject(error);
      },
    );
  });
}

/** The text of a list. It becomes a streamed body once it is long. */
class ListText {
  readonly #context: ListContext;
  readonly #respond: (content: BodyInit) => void;
  #text = "[";
  #isFirst = true;
  #body: TextBody | undefined;
  #lastChars = 0;

  /** Calls `respond` once, later: with the whole text or with the stream of its parts. */
  constructor(context: ListContext, respond: (content: BodyInit) => void) {
    this.#context = context;
    this.#respond = respond;
  }

  /**
   * Reads items and appends them. Sends the text once it is longer than `PART_CHARS`, which starts the response. Calls
   * `read` again, after a wait, if large items do not fit the budget. Throws `ClientDisconnectedError` if the client
   * reads nothing more, and `server_busy`.
   */
  async add(read: ReadItems): Promise<void> {
    if (this.#body?.isEnded || this.#context.bodyBudget.isRequestEnded()) throw new ClientDisconnectedError();
    const part = await this.#readPart(read);
    this.#lastChars = part.text.length;
    if (part.text === "") return;
    if (!this.#isFirst) this.#text += ",";
    this.#isFirst = false;
    try {
      if (part.text.length > PART_CHARS) return await this.#send(part.text);
      this.#text += part.text;
      if (this.#text.length > PART_CHARS) await this.#send();
    } finally {
      part.reservation?.release();
    }
  }

  /**
   * Closes the list. If nothing was sent, responds with the whole text; else sends the rest and closes the body. Never
   * rejects, also if the client has disconnected.
   */
  async end(): Promise<void> {
    this.#text += "]";
    const body = this.#body;
    if (!body) return this.#respond(this.#text);
    await body.send(this.#text).then(body.close, () => {});
  }

  /**
   * Breaks the body off with `error` and returns true. Logs the error unless the client has disconnected; does neither
   * if the body has ended. Returns false and does nothing if no part was sent, so that the response can still be an
   * error.
   */
  fail(error: unknown): boolean {
    if (!this.#body) return false;
    if (this.#body.isEnded) return true;
    if (!(error instanceof ClientDisconnectedError)) {
      const { request_id, handler } = this.#context;
      handler.streamingBodies.environment.log({ level: "error", message: "Reading a list failed", request_id, error });
    }
    this.#body.fail(error);
    return true;
  }

  /**
   * Starts the response with a streaming body, and returns the body. It fails when the caller loses access. Its end
   * closes this check and ends the lifetime of the request.
   */
  #open(): TextBody {
    const { handler, guard, bodyBudget } = this.#context;
    let openGuard: StreamGuard | undefined;
    /** Closes the access check of the body and ends the lifetime of the request. */
    const onEnd = (): void => {
      openGuard?.close();
      bodyBudget.endRequest();
    };
    const body = createTextBody({
      environment: handler.streamingBodies.environment,
      stalled_ms: bodyBudget.stalled_ms,
      onEnd,
    });
    openGuard = guard(body.fail);
    this.#respond(body.stream);
    return body;
  }

  /**
   * Reads items as text. Reserves bytes before the read if the last part was large. If the text is large and does not
   * fit the budget, drops it, waits for bytes, and reads again until it fits. The part of a large text holds its
   * reservation.
   */
  async #readPart(read: ReadItems): Promise<ListPart> {
    const { bodyBudget } = this.#context;
    // The items of a list are alike: the next one is probably as large as the last.
    let size = this.#lastChars > LARGE_BYTES ? this.#lastChars : 0;
    for (;;) {
      const part = await this.#tryRead(
        read,
        size > 0 ? await bodyBudget.reserve(size, this.#body !== undefined) : null,
      );
      if ("text" in part) return part;
      size = part.missingBytes;
    }
  }

  // A function of its own: while the list waits, nothing refers to the items.
  /**
   * Reads the items once, and returns their JSON texts joined by commas. A large text comes with a reservation, a small
   * one with null. Returns only the size of a large text that does not fit the budget. Resizes the given reservation,
   * or releases it.
   */
  async #tryRead(
    read: ReadItems,
    reservation: ByteReservation | null,
  ): Promise<ListPart | { readonly missingBytes: number }> {
    const items = [await read()].flat();
    const text = items.map((item) => JSON.stringify(item)).join(",");
    if (text.length <= LARGE_BYTES) {
      reservation?.release();
      return { text, reservation: null };
    }
    if (reservation?.resize(text.length)) return { text, reservation };
    reservation?.release();
    const newReservation = this.#context.bodyBudget.tryReserve(text.length);
    return newReservation ? { text, reservation: newReservation } : { missingBytes: text.length };
  }

  /** Sends the collected text and then the parts, and waits for a tick. The first call starts the response. */
  async #send(...parts: readonly string[]): Promise<void> {
    this.#body ??= this.#open();
    const text = this.#text;
    this.#text = "";
    // Parts are sent separately, because joining them would copy them.
    for (const part of [text, ...parts]) await this.#body.send(part);
    await this.#context.waitForNextTick();
  }
}

/** The callbacks of a search. It calls `begin` once, then `add` for each item. `check` throws once the client has disconnected. */
interface PageCallbacks {
  begin(page: PageInfo): void;
  add(read: ReadItems): Promise<void>;
  check(): void;
}

/**
 * Creates a response with one page of a search. `addItems` gets three functions: `begin` sets the pagination headers,
 * `add` appends items, and `check` throws `ClientDisconnectedError` if the client has disconnected. Rejects as
 * `createListResponse`.
 */
export function createPageResponse(
  context: ListContext,
  addItems: (steps: PageCallbacks) => Promise<void>,
): Promise<Response> {
  const headers: Record<string, string> = {};
  const begin = (page: PageInfo): void => void Object.assign(headers, toPageHeaders(page));
  const check = (): void => {
    if (context.bodyBudget.isRequestEnded()) throw new ClientDisconnectedError();
  };
  return createListResponse(context, (add) => addItems({ begin, add, check }), headers);
}
