/** The large bodies of one request: they take from the byte budget of the server. */
import type { ByteBudget, ByteReservation, RequestLifetime } from "./byte-budget.ts";
import type { BodyBudget, SharedReservation } from "./large-bodies.ts";
import { findLargeText, findRepeat } from "./respond.ts";
import { createTextBody } from "./text-body.ts";

type RequestHandler = () => Response | Promise<Response>;

/** What came of a read: its response, or the size that the budget has no room for. */
type ReadResult = { readonly response: Response } | { readonly missingBytes: number };

/**
 * Whether a change takes a slot as reads do, until its size is known: a PATCH answers with what it has changed, which may be large.
 * Others may wait for something else meanwhile, as a PUT for the embedding of an item.
 */
const needsReadSlot = (name: string): boolean => name.startsWith("PATCH ");

/** The departure of the client of a request, whose signal is read once, when it is needed. */
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

  onEnd(listener: () => void): () => void {
    if (!this.#isWatching) this.#getSignal().addEventListener("abort", () => this.endRequest(), { once: true });
    this.#isWatching = true;
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  endRequest(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    for (const listener of [...this.#listeners]) listener();
  }

  #getSignal(): AbortSignal {
    this.#signal ??= this.#readSignal();
    return this.#signal;
  }
}

/** The request body and the responses of one request. */
export class RequestBodyBudget {
  readonly #budget: BodyBudget;
  readonly #getCallerName: () => string;
  readonly #lifetime: ClientLifetime;
  /** The slot of a read of unknown size. */
  #slot: ByteReservation | null = null;
  /** Taken for a response before it is made. */
  #responseReservation: ByteReservation | null = null;
  #requestReservation: ByteReservation | null = null;
  #requestName: string | null = null;
  /** The size of the response, or of a part of it, is known. */
  #isMeasured = false;

  /** `caller`: the name of the credential, or of the address without authentication. */
  constructor(large: BodyBudget, caller: () => string, readSignal: () => AbortSignal) {
    this.#budget = large;
    this.#getCallerName = caller;
    this.#lifetime = new ClientLifetime(readSignal);
  }

  get stalled_ms(): number {
    return this.#budget.stalled_ms;
  }

  /** Returns true once the client has disconnected. */
  isRequestEnded(): boolean {
    return this.#lifetime.isEnded;
  }

  /** Ends the work for the request: its client reads nothing more. */
  endRequest(): void {
    this.#lifetime.endRequest();
  }

  /** Waits until the budget has room for a request body of so many bytes. They are in use until the response. */
  async reserveRequestBody(bytes: number): Promise<void> {
    this.#requestReservation = await this.#reserve(this.#budget.byteBudget, bytes);
  }

  /**
   * Answers a read. A large response that does not fit the budget is dropped, and read again when it fits. `name` identifies the read,
   * so that its size is known the next time. Throws `server_busy` and `ClientGone`.
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
   * Answers a request that may change something: calls `change` once, after a wait for bytes if the last response by this name was large.
   * Null: a request that creates something has no name.
   * A response that is larger than what it has taken does not wait, unless it is `repeatable`. Throws `server_busy` and `ClientGone`
   * before the change.
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

  /** Takes bytes for a part of a response that is sent while it is made, if they fit now, else returns null. */
  tryReserve(bytes: number): ByteReservation | null {
    this.#recordSize(bytes);
    return this.#tryReserve(bytes);
  }

  /**
   * Waits for bytes for a part of a response. `isStarted`: the response has begun, so the wait has no limit. Throws `server_busy` and
   * `ClientGone`.
   */
  async reserve(bytes: number, isStarted: boolean): Promise<ByteReservation> {
    this.#releaseSlot();
    return await this.#reserve(this.#budget.byteBudget, bytes, isStarted);
  }

  /** Takes bytes for a text that several responses may share, if they fit now. The first of them takes the bytes for all. */
  tryReserveShared(text: object, size: number): SharedReservation | null {
    const { sharedReservations, byteBudget } = this.#budget;
    const sharedReservation = sharedReservations.join(text);
    if (sharedReservation) return sharedReservation;
    const bytes = byteBudget.tryReserve(this.#getCallerName(), size);
    return bytes && sharedReservations.add(text, bytes);
  }

  /** Waits for the bytes of such a text. Throws `ClientGone`. */
  async reserveShared(text: object, size: number): Promise<SharedReservation> {
    const { sharedReservations, byteBudget } = this.#budget;
    return sharedReservations.join(text) ?? sharedReservations.add(text, await this.#reserve(byteBudget, size, true));
  }

  #reserve(budget: ByteBudget, bytes: number, isStarted = false): Promise<ByteReservation> {
    const waitLimit = isStarted ? {} : { wait_ms: this.#budget.wait_ms };
    return budget.reserve(this.#getCallerName(), bytes, { lifetime: this.#lifetime, ...waitLimit });
  }

  /** Takes what a read needs before it begins: its size if it is known to be large, else a slot. */
  async #reserveBeforeRead(name: string): Promise<void> {
    const { byteBudget, smallReads, unmeasuredReads, responseSizes } = this.#budget;
    if (!responseSizes.isLarge(name))
      this.#slot = await this.#reserve(responseSizes.has(name) ? smallReads : unmeasuredReads, 1);
    // Another read may have measured it meanwhile.
    if (!responseSizes.isLarge(name)) return;
    this.#releaseSlot();
    this.#responseReservation = await this.#reserve(byteBudget, responseSizes.get(name));
  }

  // A function of its own: while the caller waits, nothing refers to the text.
  async #tryRead(read: RequestHandler): Promise<ReadResult> {
    const startedAt = this.#budget.now();
    const response = await read();
    await this.#budget.yieldAfterRead(startedAt);
    const text = findLargeText(response);
    if (text === undefined) {
      // Large parts of a list have been measured.
      if (!this.#isMeasured) this.#recordSize(0);
      return { response };
    }
    this.#recordSize(text.length);
    const bytes = this.#tryReserve(text.length);
    return bytes ? { response: this.#createResponse(response, text, bytes) } : { missingBytes: text.length };
  }

  async #readUntilFits(read: RequestHandler, firstResult: ReadResult): Promise<Response> {
    let result = firstResult;
    while ("missingBytes" in result) {
      this.#releaseSlot();
      this.#responseReservation = await this.#reserve(this.#budget.byteBudget, result.missingBytes);
      result = await this.#tryRead(read);
    }
    return result.response;
  }

  /** Calls a handler once. The result is its response, or a way to read it when the budget has room. */
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

  /** Takes bytes if they fit now. Uses those that the read has taken before it began. */
  #tryReserve(size: number): ByteReservation | null {
    const bytes = this.#responseReservation;
    this.#responseReservation = null;
    if (bytes?.resize(size)) return bytes;
    bytes?.release();
    return this.#budget.byteBudget.tryReserve(this.#getCallerName(), size);
  }

  /** Sends the text of a response in pieces, as its client reads it. */
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

  #recordSize(size: number): void {
    this.#isMeasured = true;
    if (this.#requestName !== null) this.#budget.responseSizes.set(this.#requestName, size);
  }

  #releaseSlot(): void {
    this.#slot?.release();
    this.#slot = null;
  }

  #releaseAll(): void {
    this.#releaseSlot();
    this.#responseReservation?.release();
    this.#requestReservation?.release();
    this.#responseReservation = null;
    this.#requestReservation = null;
  }
}
