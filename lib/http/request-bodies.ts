/** The large bodies of one request: they take from the byte budget of the server. */
import type { ByteBudget, ByteReservation, RequestLifetime } from "./byte-budget.ts";
import type { BodyBudget, SharedReservation } from "./large-bodies.ts";
import { findLargeText, findRepeat } from "./respond.ts";
import { createTextBody } from "./text-body.ts";

type Answer = () => Response | Promise<Response>;

/** What came of a read: its response, or the size that the budget has no room for. */
type ReadResult = { readonly response: Response } | { readonly missing: number };

/**
 * Whether a change takes a slot as reads do, until its size is known: a PATCH answers with what it has changed, which may be large.
 * Others may wait for something else meanwhile, as a PUT for the embedding of an item.
 */
const isPaced = (name: string): boolean => name.startsWith("PATCH ");

/** The departure of the client of a request, whose signal is read once, when it is needed. */
class ClientLifetime implements RequestLifetime {
  readonly #readSignal: () => AbortSignal;
  #signal: AbortSignal | undefined;
  readonly #listeners = new Set<() => void>();
  #isLeft = false;
  #isWatching = false;

  constructor(readSignal: () => AbortSignal) {
    this.#readSignal = readSignal;
  }

  get isEnded(): boolean {
    return this.#isLeft || this.#getSignal().aborted;
  }

  onEnd(fn: () => void): () => void {
    if (!this.#isWatching) this.#getSignal().addEventListener("abort", () => this.endRequest(), { once: true });
    this.#isWatching = true;
    this.#listeners.add(fn);
    return () => this.#listeners.delete(fn);
  }

  endRequest(): void {
    if (this.#isLeft) return;
    this.#isLeft = true;
    for (const fn of [...this.#listeners]) fn();
  }

  #getSignal(): AbortSignal {
    this.#signal ??= this.#readSignal();
    return this.#signal;
  }
}

/** The request body and the responses of one request. */
export class RequestBodyBudget {
  readonly #large: BodyBudget;
  readonly #caller: () => string;
  readonly #departure: ClientLifetime;
  /** The slot of a read of unknown size. */
  #slot: ByteReservation | null = null;
  /** Taken for a response before it is made. */
  #responseBytes: ByteReservation | null = null;
  #requestBytes: ByteReservation | null = null;
  #readName: string | null = null;
  /** The size of the response, or of a part of it, is known. */
  #isMeasured = false;

  /** `caller`: the name of the credential, or of the address without authentication. */
  constructor(large: BodyBudget, caller: () => string, readSignal: () => AbortSignal) {
    this.#large = large;
    this.#caller = caller;
    this.#departure = new ClientLifetime(readSignal);
  }

  get stalled_ms(): number {
    return this.#large.stalled_ms;
  }

  /** Returns true once the client has disconnected. */
  isRequestEnded(): boolean {
    return this.#departure.isEnded;
  }

  /** Ends the work for the request: its client reads nothing more. */
  endRequest(): void {
    this.#departure.endRequest();
  }

  /** Waits until the budget has room for a request body of so many bytes. They are in use until the response. */
  async reserveRequestBody(bytes: number): Promise<void> {
    this.#requestBytes = await this.#wait(this.#large.byteBudget, bytes);
  }

  /**
   * Answers a read. A large response that does not fit the budget is dropped, and read again when it fits. `name` identifies the read,
   * so that its size is known the next time. Throws `server_busy` and `ClientGone`.
   */
  async respondToRead(name: string, read: Answer): Promise<Response> {
    this.#readName = name;
    try {
      await this.#admit(name);
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
  async respondToChange(name: string | null, change: Answer): Promise<Response> {
    this.#readName = name;
    const { byteBudget, responseSizes } = this.#large;
    try {
      if (name !== null && isPaced(name)) await this.#admit(name);
      else if (name !== null && responseSizes.isLarge(name))
        this.#responseBytes = await this.#wait(byteBudget, responseSizes.get(name));
      const { again, ...first } = await this.#tryChange(change);
      return "response" in first ? first.response : await this.#readUntilFits(again as Answer, first);
    } finally {
      this.#releaseAll();
    }
  }

  /** Takes bytes for a part of a response that is sent while it is made, if they fit now, else returns null. */
  tryReserve(bytes: number): ByteReservation | null {
    this.#remember(bytes);
    return this.#takeNow(bytes);
  }

  /**
   * Waits for bytes for a part of a response. `isStarted`: the response has begun, so the wait has no limit. Throws `server_busy` and
   * `ClientGone`.
   */
  async reserve(bytes: number, isStarted: boolean): Promise<ByteReservation> {
    this.#leaveSlot();
    return await this.#wait(this.#large.byteBudget, bytes, isStarted);
  }

  /** Takes bytes for a text that several responses may share, if they fit now. The first of them takes the bytes for all. */
  tryReserveShared(text: object, size: number): SharedReservation | null {
    const { sharedReservations, byteBudget } = this.#large;
    const joined = sharedReservations.join(text);
    if (joined) return joined;
    const bytes = byteBudget.tryReserve(this.#caller(), size);
    return bytes && sharedReservations.add(text, bytes);
  }

  /** Waits for the bytes of such a text. Throws `ClientGone`. */
  async reserveShared(text: object, size: number): Promise<SharedReservation> {
    const { sharedReservations, byteBudget } = this.#large;
    return sharedReservations.join(text) ?? sharedReservations.add(text, await this.#wait(byteBudget, size, true));
  }

  #wait(budget: ByteBudget, bytes: number, isStarted = false): Promise<ByteReservation> {
    const limit = isStarted ? {} : { wait_ms: this.#large.wait_ms };
    return budget.reserve(this.#caller(), bytes, { lifetime: this.#departure, ...limit });
  }

  /** Takes what a read needs before it begins: its size if it is known to be large, else a slot. */
  async #admit(name: string): Promise<void> {
    const { byteBudget, smallReads, unmeasuredReads, responseSizes } = this.#large;
    if (!responseSizes.isLarge(name))
      this.#slot = await this.#wait(responseSizes.has(name) ? smallReads : unmeasuredReads, 1);
    // Another read may have measured it meanwhile.
    if (!responseSizes.isLarge(name)) return;
    this.#leaveSlot();
    this.#responseBytes = await this.#wait(byteBudget, responseSizes.get(name));
  }

  // A function of its own: while the caller waits, nothing refers to the text.
  async #tryRead(read: Answer): Promise<ReadResult> {
    const from = this.#large.now();
    const response = await read();
    await this.#large.yieldAfterRead(from);
    const text = findLargeText(response);
    if (text === undefined) {
      // Large parts of a list have been measured.
      if (!this.#isMeasured) this.#remember(0);
      return { response };
    }
    this.#remember(text.length);
    const bytes = this.#takeNow(text.length);
    return bytes ? { response: this.#send(response, text, bytes) } : { missing: text.length };
  }

  async #readUntilFits(read: Answer, first: ReadResult): Promise<Response> {
    let result = first;
    while ("missing" in result) {
      this.#leaveSlot();
      this.#responseBytes = await this.#wait(this.#large.byteBudget, result.missing);
      result = await this.#tryRead(read);
    }
    return result.response;
  }

  /** Calls a handler once. The result is its response, or a way to read it when the budget has room. */
  async #tryChange(change: Answer): Promise<ReadResult & { again?: Answer }> {
    const response = await change();
    const text = findLargeText(response);
    this.#requestBytes?.release();
    this.#requestBytes = null;
    if (text === undefined) {
      const name = this.#readName;
      if (!this.#isMeasured && name !== null && (isPaced(name) || this.#large.responseSizes.has(name)))
        this.#remember(0);
      return { response };
    }
    const { length } = text;
    this.#remember(length);
    const again = findRepeat(response);
    const bytes = this.#takeNow(length) ?? (again ? null : this.#large.byteBudget.forceReserve(this.#caller(), length));
    return bytes ? { response: this.#send(response, text, bytes) } : { missing: length, ...(again ? { again } : {}) };
  }

  /** Takes bytes if they fit now. Uses those that the read has taken before it began. */
  #takeNow(size: number): ByteReservation | null {
    const bytes = this.#responseBytes;
    this.#responseBytes = null;
    if (bytes?.resize(size)) return bytes;
    bytes?.release();
    return this.#large.byteBudget.tryReserve(this.#caller(), size);
  }

  /** Sends the text of a response in pieces, as its client reads it. */
  #send({ status, headers }: Response, text: string, bytes: ByteReservation): Response {
    const { environment, stalled_ms } = this.#large;
    const onEnd = (): void => {
      bytes.release();
      this.endRequest();
    };
    const body = createTextBody({ environment, stalled_ms, onEnd });
    body.send(text).then(body.close, () => {});
    return new Response(body.stream, { status, headers });
  }

  #remember(size: number): void {
    this.#isMeasured = true;
    if (this.#readName !== null) this.#large.responseSizes.set(this.#readName, size);
  }

  #leaveSlot(): void {
    this.#slot?.release();
    this.#slot = null;
  }

  #releaseAll(): void {
    this.#leaveSlot();
    this.#responseBytes?.release();
    this.#requestBytes?.release();
    this.#responseBytes = null;
    this.#requestBytes = null;
  }
}
