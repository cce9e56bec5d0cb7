/** The large bodies of one request: they take from the byte budget of the server. */
import type { ByteBudget, ByteHold, Departure } from "./byte-budget.ts";
import type { LargeBodies } from "./large-bodies.ts";
import { LARGE_BYTES, repeatOf, responseText } from "./respond.ts";
import { createTextBody } from "./text-body.ts";

/** The number of reads whose size is remembered, and the longest name of one. */
const MAX_MEASURED = 5_000;
const MAX_NAME_CHARS = 500;

/** The large bodies of one request. */
export interface RequestBodies {
  readonly stalled_ms: number;
  /** Returns true once the client has disconnected. */
  isGone(): boolean;
  /** Ends the work for the request: its client reads nothing more. */
  leave(): void;
  /** Waits until the budget has room for a request body of so many bytes. They are in use until the response. */
  receive(bytes: number): Promise<void>;
  /**
   * Answers a read. A large response that does not fit the budget is dropped, and read again when it fits. `name` identifies the read,
   * so that its size is known the next time. Throws `server_busy` and `ClientGone`.
   */
  answerRead(name: string, read: () => Response | Promise<Response>): Promise<Response>;
  /**
   * Answers a request that may change something: calls `change` once, after a wait for bytes if the last response by this name was large.
   * Null: a request that creates something has no name.
   * A response that is larger than what it has taken does not wait, unless it is `repeatable`. Throws `server_busy` and `ClientGone`
   * before the change.
   */
  answerChange(name: string | null, change: () => Response | Promise<Response>): Promise<Response>;
  /** Takes bytes for a part of a response that is sent while it is made, if they fit now, else returns null. */
  tryTake(bytes: number): ByteHold | null;
  /**
   * Waits for bytes for a part of a response. `isStarted`: the response has begun, so the wait has no limit. Throws `server_busy` and
   * `ClientGone`.
   */
  take(bytes: number, isStarted: boolean): Promise<ByteHold>;
  /** Takes bytes for a text that several responses may share, if they fit now. The first of them takes the bytes for all. */
  tryShare(text: object, bytes: number): Pick<ByteHold, "release"> | null;
  /** Waits for the bytes of such a text. Throws `ClientGone`. */
  share(text: object, bytes: number): Promise<Pick<ByteHold, "release">>;
}

/** Creates the departure of a client from the signal of its request. The second result ends the work earlier. */
function createDeparture(signal: AbortSignal | undefined): readonly [departure: Departure, leave: () => void] {
  const listeners = new Set<() => void>();
  let isLeft = false;
  let isWatched = false;
  const leave = (): void => {
    if (isLeft) return;
    isLeft = true;
    for (const fn of [...listeners]) fn();
  };
  const departure: Departure = {
    get isGone() {
      return isLeft || signal?.aborted === true;
    },
    onGone(fn) {
      if (!isWatched) signal?.addEventListener("abort", leave, { once: true });
      isWatched = true;
      listeners.add(fn);
      return () => listeners.delete(fn);
    },
  };
  return [departure, leave];
}

/** What came of a read: its response, or the size that the budget has no room for. */
type ReadResult = { readonly response: Response } | { readonly missing: number };

/** `caller`: the name of the credential, or of the address without authentication. */
export function createRequestBodies(
  large: LargeBodies,
  caller: () => string,
  signal: () => AbortSignal | undefined,
): RequestBodies {
  const { budget, unmeasured, small, shared, sizes, wait_ms, stalled_ms } = large;
  let departed: readonly [Departure, () => void] | undefined;
  // The slot of a read of unknown size, the bytes of its response, and those of the request.
  let slot: ByteHold | null = null;
  let held: ByteHold | null = null;
  let received: ByteHold | null = null;
  let readName: string | null = null;
  let isMeasured = false;

  function departure(): readonly [Departure, () => void] {
    departed ??= createDeparture(signal());
    return departed;
  }

  const wait = (from: ByteBudget, bytes: number, isStarted = false): Promise<ByteHold> =>
    from.take(caller(), bytes, { departure: departure()[0], ...(isStarted ? {} : { wait_ms }) });

  function leaveSlot(): void {
    slot?.release();
    slot = null;
  }

  function releaseAll(): void {
    leaveSlot();
    held?.release();
    received?.release();
    held = null;
    received = null;
  }

  function remember(size: number): void {
    isMeasured = true;
    if (readName === null || readName.length > MAX_NAME_CHARS || (sizes.get(readName) ?? -1) === size) return;
    sizes.delete(readName);
    sizes.set(readName, size);
    if (sizes.size > MAX_MEASURED) sizes.delete(sizes.keys().next().value as string);
  }

  /** Adds a response to those that share a text. `first`: takes the bytes if there are none. */
  function shareWith(text: object, first: ByteHold | null): Pick<ByteHold, "release"> | null {
    const known = shared.get(text) ?? (first ? { bytes: first, users: 0 } : null);
    if (!known) return null;
    if (first && known.bytes !== first) first.release();
    shared.set(text, known);
    known.users++;
    let isReleased = false;
    return {
      release() {
        if (isReleased) return;
        isReleased = true;
        if (--known.users > 0) return;
        shared.delete(text);
        known.bytes.release();
      },
    };
  }

  /** Sends the text of a response in pieces, as its client reads it. */
  function send({ status, headers }: Response, text: string, bytes: ByteHold): Response {
    const end = departure()[1];
    const body = createTextBody({
      environment: large.environment,
      stalled_ms,
      onEnd() {
        bytes.release();
        end();
      },
    });
    body.send(text).then(body.close, () => {});
    return new Response(body.stream, { status, headers });
  }

  /** Takes bytes if they fit now. Uses those that the read has taken before it began. */
  function takeNow(bytes: number): ByteHold | null {
    const own = held;
    held = null;
    if (own?.resize(bytes)) return own;
    own?.release();
    return budget.tryTake(caller(), bytes);
  }

  /** Takes what a read needs before it begins: its size if it is known to be large, or a slot if it is unknown. */
  async function admit(name: string): Promise<void> {
    const isLarge = (): boolean => (sizes.get(name) ?? 0) > LARGE_BYTES;
    if (!isLarge()) slot = await wait(sizes.has(name) ? small : unmeasured, 1);
    // Another read may have measured it meanwhile.
    if (!isLarge()) return;
    leaveSlot();
    held = await wait(budget, sizes.get(name) as number);
  }

  // A function of its own: while the caller waits, nothing refers to the text.
  async function tryRead(read: () => Response | Promise<Response>): Promise<ReadResult> {
    const from = large.now();
    const response = await read();
    await large.rest(from);
    const text = responseText(response);
    if (text === undefined) {
      // Large parts of a list have been measured.
      if (!isMeasured) remember(0);
      return { response };
    }
    remember(text.length);
    const bytes = takeNow(text.length);
    return bytes ? { response: send(response, text, bytes) } : { missing: text.length };
  }

  async function readUntilFits(read: () => Response | Promise<Response>, first: ReadResult): Promise<Response> {
    let result = first;
    while ("missing" in result) {
      leaveSlot();
      held = await wait(budget, result.missing);
      result = await tryRead(read);
    }
    return result.response;
  }

  /** Calls a handler once. The result is its response, or a way to read it when the budget has room. */
  async function tryChange(
    change: () => Response | Promise<Response>,
  ): Promise<ReadResult & { again?: () => Promise<Response> }> {
    const response = await change();
    const text = responseText(response);
    received?.release();
    received = null;
    if (text === undefined) {
      if (!isMeasured && readName !== null && sizes.has(readName)) remember(0);
      return { response };
    }
    remember(text.length);
    const again = repeatOf(response);
    const bytes = takeNow(text.length) ?? (again ? null : budget.force(caller(), text.length));
    return bytes ? { response: send(response, text, bytes) } : { missing: text.length, ...(again ? { again } : {}) };
  }

  return {
    stalled_ms,
    isGone: () => departure()[0].isGone,
    leave: () => departure()[1](),
    async receive(bytes) {
      received = await wait(budget, bytes);
    },
    async answerRead(name, read) {
      readName = name;
      try {
        await admit(name);
        return await readUntilFits(read, await tryRead(read));
      } finally {
        releaseAll();
      }
    },
    async answerChange(name, change) {
      readName = name;
      try {
        const size = name === null ? 0 : (sizes.get(name) ?? 0);
        if (size > LARGE_BYTES) held = await wait(budget, size);
        const { again, ...first } = await tryChange(change);
        return "response" in first ? first.response : await readUntilFits(again as () => Promise<Response>, first);
      } finally {
        releaseAll();
      }
    },
    tryTake(bytes) {
      remember(bytes);
      return takeNow(bytes);
    },
    async take(bytes, isStarted) {
      leaveSlot();
      return await wait(budget, bytes, isStarted);
    },
    tryShare: (text, bytes) => shareWith(text, shared.has(text) ? null : budget.tryTake(caller(), bytes)),
    async share(text, bytes) {
      return shareWith(text, null) ?? (shareWith(text, await wait(budget, bytes, true)) as ByteHold);
    },
  };
}
