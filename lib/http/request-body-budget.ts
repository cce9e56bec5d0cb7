/** Reserves bytes for the large bodies of one request. */

import type { BodyBudget, SharedReservation } from "./body-budget.ts";
import type { ByteBudget, ByteReservation, RequestLifetime } from "./byte-budget.ts";
import { findLargeText, findRepeat } from "./respond.ts";
import { createTextBody } from "./text-body.ts";

type RequestHandler = () => Response | Promise<Response>;

/** The result of a read: its response, or its size if the budget has no room for it. */
type ReadResult = { readonly response: Response } | { readonly missingBytes: number };

/**
 * Returns true if a change needs a slot until its size is known, as reads do. The response to a PATCH is the changed resource, which may
 * be large. Other changes may wait meanwhile, as a PUT for the embedding of an item.
 */
const needsReadSlot = (name: string): boolean => name.startsWith("PATCH ");

/** The lifetime of the client of a request. It reads the signal once, when it is first needed. */
class ClientLifetime implements RequestLifetime {
  readonly #readSignal: () => AbortSignal;
  #signal: AbortSignal | undefined;
  readonly #listeners = new Set<() => void>();
  #isEnded = false;
  #isWatching = false;

  constructor(readSignal: () => AbortSignal) {
    this.#readSignal = readSignal;
  }

  get isEnded(): boolean {
    return this.#isEnded || this.#getSignal().aborted;
  }

  /**
   * Calls the listener once when the client disconnects or the request ends. Returns a function that removes it. The
   * first call starts to watch the signal of the request. Never calls a listener that is added after the end.
   */
  onEnd(listener: () => void): () => void {
    if (!this.#isWatching) this.#getSignal().addEventListener("abort", () => this.end(), { once: true });
    this.#isWatching = true;
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Ends the lifetime and calls all listeners. Does nothing the second time. */
  end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    for (const listener of [...this.#listeners]) listener();
  }

  #getSignal(): AbortSignal {
    this.#signal ??= this.#readSignal();
    return this.#signal;
  }
}

/** The reservations for the request body and the response of one request. */
export class RequestBodyBudget {
  readonly #budget: BodyBudget;
  readonly #getCallerName: () => string;
  readonly #lifetime: ClientLifetime;
  /** The slot of a read whose size is not known to be large. */
  #slot: ByteReservation | null = null;
  /** Bytes that were reserved before the response exists. */
  #responseReservation: ByteReservation | null = null;
  #requestReservation: ByteReservation | null = null;
  #requestName: string | null = null;
  /** True once the size of the response, or of a part of it, is known. */
  #isMeasured = false;

  constructor(large: BodyBudget, caller: () => string, readSignal: () => AbortSignal) {
    this.#budget = large;
    this.#getCallerName = caller;
    this.#lifetime = new ClientLifetime(readSignal);
  }

  get stalled_ms(): number {
    return this.#budget.stalled_ms;
  }

  /** Returns true once the client has disconnected or the response has ended. */
  isRequestEnded(): boolean {
    return this.#lifetime.isEnded;
  }

  /** Ends the work for the request, because its client reads nothing more. */
  endRequest(): void {
    this.#lifetime.end();
  }

  /** Waits until the budget has room for a request body, and reserves its bytes until the response. */
  async reserveRequestBody(bytes: number): Promise<void> {
    this.#requestReservation = await this.#reserve(this.#budget.byteBudget, bytes);
  }

  /**
   * Returns the response of a read. Waits before it for bytes if the last response by this name was large, else for a
   * read slot. Drops a large response that does not fit the budget, and calls `read` again when it fits. Records its
   * size under `name`. Throws `server_busy` and `ClientDisconnectedError`.
   */
  async respondToRead(name: string, read: RequestHandler): Promise<Response> {
    this.#requestName = name;
    try {
      await this.#reserveBeforeRead(name);
      return await this.#readUntilFits(read, await this.#tryRead(read));
    } finally {
      this.#releaseAll();
    }
  }

  /**
   * Returns the response of a change, which is called once, after a wait for bytes if the last response by this name
   * was large. `name` is null for a request that creates a resource. A large response that does not fit reserves bytes
   * all the same; a repeatable one is dropped and repeated when it fits. Throws `server_busy` and
   * `ClientDisconnectedError`.
   */
  async respondToChange(name: string | null, change: RequestHandler): Promise<Response> {
    this.#requestName = name;
    const { byteBudget, responseSizes } = this.#budget;
    try {
      if (name !== null && needsReadSlot(name)) await this.#reserveBeforeRead(name);
      else if (name !== null && responseSizes.isLarge(name))
        this.#responseReservation = await this.#reserve(byteBudget, responseSizes.get(name));
      const { repeat, ...firstResult } = await this.#tryChange(change);
      return "response" in firstResult
        ? firstResult.response
        : await this.#readUntilFits(repeat as RequestHandler, firstResult);
    } finally {
      this.#releaseAll();
    }
  }

  /**
   * Records `bytes` as the size of responses by this name, and reserves bytes for a part of a streamed response.
   * Returns null if they do not fit now.
   */
  tryReserve(bytes: number): ByteReservation | null {
    this.#recordSize(bytes);
    return this.#tryReserve(bytes);
  }

  /**
   * Gives up the read slot, and waits for bytes for a part of a streamed response. The wait has no limit once the
   * response has started. Throws `server_busy` and `ClientDisconnectedError`.
   */
  async reserve(bytes: number, isStarted: boolean): Promise<ByteReservation> {
    this.#releaseSlot();
    return await this.#reserve(this.#budget.byteBudget, bytes, isStarted);
  }

  /**
   * Joins the reservation of a text that several responses share; the first one reserves for all. Returns null if its
   * bytes do not fit now.
   */
  tryReserveShared(text: object, size: number): SharedReservation | null {
    const { sharedReservations, byteBudget } = this.#budget;
    const sharedReservation = sharedReservations.join(text);
    if (sharedReservation) return sharedReservation;
    const bytes = byteBudget.tryReserve(this.#getCallerName(), size);
    return bytes && sharedReservations.add(text, bytes);
  }

  /**
   * Joins the reservation of a text that several responses share, or waits without a time limit for bytes and shares
   * them. Throws `ClientDisconnectedError`.
   */
  async reserveShared(text: object, size: number): Promise<SharedReservation> {
    const { sharedReservations, byteBudget } = this.#budget;
    return sharedReservations.join(text) ?? sharedReservations.add(text, await this.#reserve(byteBudget, size, true));
  }

  /**
   * Reserves units of `budget` for the caller, and waits for them: at most `wait_ms` of the options, without a limit if
   * the body has started. Rejects with `server_busy` after that, and with `ClientDisconnectedError` if the client
   * disconnects.
   */
  #reserve(budget: ByteBudget, bytes: number, isStarted = false): Promise<ByteReservation> {
    const waitLimit = isStarted ? {} : { wait_ms: this.#budget.wait_ms };
    return budget.reserve(this.#getCallerName(), bytes, { lifetime: this.#lifetime, ...waitLimit });
  }

  /**
   * Waits for the bytes of a read whose last response was large, and keeps them in `#responseReservation`. Otherwise
   * waits for a slot and keeps it in `#slot`; if the read was found to be large meanwhile, gives the slot up and waits
   * for bytes.
   */
  async #reserveBeforeRead(name: string): Promise<void> {
    const { byteBudget, smallReads, unmeasuredReads, responseSizes } = this.#budget;
    if (!responseSizes.isLarge(name))
      this.#slot = await this.#reserve(responseSizes.has(name) ? smallReads : unmeasuredReads, 1);
    // Another read with this name may have been large meanwhile.
    if (!responseSizes.isLarge(name)) return;
    this.#releaseSlot();
    this.#responseReservation = await this.#reserve(byteBudget, responseSizes.get(name));
  }

  // A function of its own: while the caller waits, nothing refers to the text.
  /**
   * Calls `read` and records the size of its response. Returns a small response as it is, and a large one only if its
   * bytes fit the budget or `#responseReservation`, which is used up. Otherwise drops it and returns its size. May wait
   * for a tick after the read.
   */
  async #tryRead(read: RequestHandler): Promise<ReadResult> {
    const startedAt = this.#budget.now();
    const response = await read();
    await this.#budget.yieldAfterRead(startedAt);
    const text = findLargeText(response);
    if (text === undefined) {
      // A list with large parts has set its size.
      if (!this.#isMeasured) this.#recordSize(0);
      return { response };
    }
    this.#recordSize(text.length);
    const bytes = this.#tryReserve(text.length);
    return bytes ? { response: this.#createResponse(response, text, bytes) } : { missingBytes: text.length };
  }

  /**
   * Returns the response of `firstResult`. If that did not fit, gives up the slot, waits for its bytes, keeps them in
   * `#responseReservation` and calls `read` again, until a response fits. Rejects as `#reserve`.
   */
  async #readUntilFits(read: RequestHandler, firstResult: ReadResult): Promise<Response> {
    let result = firstResult;
    while ("missingBytes" in result) {
      this.#releaseSlot();
      this.#responseReservation = await this.#reserve(this.#budget.byteBudget, result.missingBytes);
      result = await this.#tryRead(read);
    }
    return result.response;
  }

  /**
   * Calls `change` once, releases the bytes of the request body, and records the size of the response. Returns the
   * response; a large one that does not fit reserves bytes all the same. If it is repeatable, returns its size and
   * `repeat` instead, which creates it again.
   */
  async #tryChange(change: RequestHandler): Promise<ReadResult & { repeat?: RequestHandler }> {
    const response = await change();
    const text = findLargeText(response);
    this.#requestReservation?.release();
    this.#requestReservation = null;
    if (text === undefined) {
      const name = this.#requestName;
      if (!this.#isMeasured && name !== null && (needsReadSlot(name) || this.#budget.responseSizes.has(name)))
        this.#recordSize(0);
      return { response };
    }
    const { length } = text;
    this.#recordSize(length);
    const repeat = findRepeat(response);
    const bytes =
      this.#tryReserve(length) ?? (repeat ? null : this.#budget.byteBudget.forceReserve(this.#getCallerName(), length));
    return bytes
      ? { response: this.#createResponse(response, text, bytes) }
      : { missingBytes: length, ...(repeat ? { repeat } : {}) };
  }

  /**
   * Takes `#responseReservation` out of its field. Returns it if it can be resized to `size`; otherwise releases it and
   * reserves bytes if they fit now. Returns null if they do not.
   */
  #tryReserve(size: number): ByteReservation | null {
    const bytes = this.#responseReservation;
    this.#responseReservation = null;
    if (bytes?.resize(size)) return bytes;
    bytes?.release();
    return this.#budget.byteBudget.tryReserve(this.#getCallerName(), size);
  }

  /**
   * Creates a response that streams `text` at the speed of its client, with the given status and headers. Its end
   * releases `bytes` and ends the lifetime of the request. A failed send is ignored.
   */
  #createResponse({ status, headers }: Response, text: string, bytes: ByteReservation): Response {
    const { environment, stalled_ms } = this.#budget;
    /** Releases the bytes of the response and ends the lifetime of the request. */
    const onEnd = (): void => {
      bytes.release();
      this.endRequest();
    };
    const body = createTextBody({ environment, stalled_ms, onEnd });
    body.send(text).then(body.close, () => {});
    return new Response(body.stream, { status, headers });
  }

  /**
   * Marks the response as measured, and records its size for the next request of the same name. A request without a
   * name records nothing.
   */
  #recordSize(size: number): void {
    this.#isMeasured = true;
    if (this.#requestName !== null) this.#budget.responseSizes.set(this.#requestName, size);
  }

  /** Releases the slot of the request. Does nothing if it has none. */
  #releaseSlot(): void {
    this.#slot?.release();
    this.#slot = null;
  }

  /** Releases the slot and all bytes that no response has taken over. */
  #releaseAll(): void {
    this.#releaseSlot();
    this.#responseReservation?.release();
    this.#requestReservation?.release();
    this.#responseReservation = null;
    this.#requestReservation = null;
  }
}
