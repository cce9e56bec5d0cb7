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

  /** Calls the listener when the client disconnects or the request ends. Returns a function that removes it. */
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
   * Returns the response of a read. Drops a large response that does not fit the budget, and calls `read` again when it fits. `name`
   * identifies the read, so that its size is known the next time. Throws `server_busy` and `ClientDisconnectedError`.
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
   * Returns the response of a change. Calls `change` once, after a wait for bytes if the last response by this name was large. `name` is
   * null for a request that creates a resource. A response larger than its reservation does not wait, unless it is repeatable. Throws
   * `server_busy` and `ClientDisconnectedError` before the change.
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

  /** Reserves bytes for a part of a streamed response. Returns null if they do not fit now. */
  tryReserve(bytes: number): ByteReservation | null {
    this.#recordSize(bytes);
    return this.#tryReserve(bytes);
  }

  /**
   * Waits for bytes for a part of a streamed response. The wait has no limit once the response has started. Throws `server_busy` and
   * `ClientDisconnectedError`.
   */
  async reserve(bytes: number, isStarted: boolean): Promise<ByteReservation> {
    this.#releaseSlot();
    return await this.#reserve(this.#budget.byteBudget, bytes, isStarted);
  }

  /** Reserves bytes for a text that several responses share. The first one reserves for all. Returns null if they do not fit now. */
  tryReserveShared(text: object, size: number): SharedReservation | null {
    const { sharedReservations, byteBudget } = this.#budget;
    const sharedReservation = sharedReservations.join(text);
    if (sharedReservation) return sharedReservation;
    const bytes = byteBudget.tryReserve(this.#getCallerName(), size);
    return bytes && sharedReservations.add(text, bytes);
  }

  /** Waits for bytes for a text that several responses share. Throws `ClientDisconnectedError`. */
  async reserveShared(text: object, size: number): Promise<SharedReservation> {
    const { sharedReservations, byteBudget } = this.#budget;
    return sharedReservations.join(text) ?? sharedReservations.add(text, await this.#reserve(byteBudget, size, true));
  }

  /**
   * Reserves memory for the caller; waits for it, for a limited time unless the body has started. Throws `server_busy` after
   * that, and ClientDisconnectedError if the client leaves.
   */
  #reserve(budget: ByteBudget, bytes: number, isStarted = false): Promise<ByteReservation> {
    const waitLimit = isStarted ? {} : { wait_ms: this.#budget.wait_ms };
    return budget.reserve(this.#getCallerName(), bytes, { lifetime: this.#lifetime, ...waitLimit });
  }

  /** Reserves the size of a read that is known to be large, else a slot. */
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
  /** Calls `read` and measures its response. Returns a large one only if it fits the budget, else its size. */
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

  /** Waits for room and reads again, until the response fits. */
  async #readUntilFits(read: RequestHandler, firstResult: ReadResult): Promise<Response> {
    let result = firstResult;
    while ("missingBytes" in result) {
      this.#releaseSlot();
      this.#responseReservation = await this.#reserve(this.#budget.byteBudget, result.missingBytes);
      result = await this.#tryRead(read);
    }
    return result.response;
  }

  /** Calls a handler once. Returns its response, or the size and `repeat`, which reads the response when the budget has room. */
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

  /** Reserves bytes if they fit now. Uses the bytes that were reserved before the read. */
  #tryReserve(size: number): ByteReservation | null {
    const bytes = this.#responseReservation;
    this.#responseReservation = null;
    if (bytes?.resize(size)) return bytes;
    bytes?.release();
    return this.#budget.byteBudget.tryReserve(this.#getCallerName(), size);
  }

  /** Creates a response whose text is sent in pieces at the speed of its client, and whose bytes are released at its end. */
  #createResponse({ status, headers }: Response, text: string, bytes: ByteReservation): Response {
    const { environment, stalled_ms } = this.#budget;
    const onEnd = (): void => {
      bytes.release();
      this.endRequest();
    };
    const body = createTextBody({ environment, stalled_ms, onEnd });
    body.send(text).then(body.close, () => {});
    return new Response(body.stream, { status, headers });
  }

  /** Notes the size of the response, for the next request of the same name. */
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
