/** Responds with the result of a run. White space keeps the connection alive until the run ends. */
import { ServiceError } from "../errors.ts";
import { type Json, type SharedText, stringifyShared } from "../json.ts";
import type { RunWait } from "../runs/mod.ts";
import { type ByteReservation, ClientDisconnectedError } from "./byte-budget.ts";
import { type HeaderValues, LARGE_BYTES } from "./respond.ts";
import type { RequestContext } from "./route.ts";
import { type BodySource, createStreamingResponse, type SourceText } from "./streaming-body.ts";

interface WaitOptions {
  /** Reads the result of the ended run again. If set, a large result is dropped until the byte budget has room for it. */
  readonly rereadResult?: () => Promise<Json>;
}

/**
 * Creates a response with the result of a run as JSON, after line feeds while the run executes. A result of null
 * becomes `{}`, because SDKs read its keys. An error of the run becomes a JSON text with `__error__`, also with status
 * 200.
 */
export function createWaitResponse(
  context: RequestContext,
  wait: RunWait,
  headers: HeaderValues,
  options: WaitOptions = {},
): Response {
  const source = new ResultSource(context, wait, options);
  return createStreamingResponse(context, source, { "content-type": "application/json", ...headers });
}

type Reservation = Pick<ByteReservation, "release">;

class ResultSource implements BodySource {
  readonly heartbeat = "\n";
  /** A part of the context, so that the body does not retain the request. */
  readonly #context: Pick<RequestContext, "handler" | "bodyBudget" | "request_id">;
  /** The ids alone, so that the body does not retain the run, whose input may be large. */
  readonly #ids: Pick<RunWait["run"], "run_id" | "thread_id">;
  readonly #releaseRun: RunWait["leave"];
  readonly #rereadResult: WaitOptions["rereadResult"];
  /** Cleared once it is read, because it may be large. */
  #result: RunWait["result"] | undefined;
  #text: SharedText | undefined;
  /** The reserved size of a large text. It is released when the body ends. */
  #reservation: Reservation | null = null;
  #isEnded = false;

  constructor(context: RequestContext, { run, result, leave }: RunWait, { rereadResult }: WaitOptions) {
    const { handler, bodyBudget, request_id } = context;
    this.#context = { handler, bodyBudget, request_id };
    this.#ids = { run_id: run.run_id, thread_id: run.thread_id };
    this.#releaseRun = leave;
    this.#rereadResult = rereadResult;
    this.#result = result;
  }

  /** Returns the result as the only and last piece. While the run is active, returns no piece, and not the last. */
  takeText(): SourceText {
    const text = this.#text;
    return { pieces: text ? [text.json] : [], isLast: text !== undefined };
  }

  /**
   * Waits until the text is loaded. Returns false if the thread was deleted or is no longer visible, or the client has
   * disconnected: the body breaks off. Throws other errors.
   */
  async waitForText(): Promise<boolean> {
    try {
      await this.#load();
      return true;
    } catch (error) {
      // The thread was deleted or is no longer visible to the caller: the body breaks off, as that of a stream.
      if (error instanceof ClientDisconnectedError || isNotFound(error)) return false;
      throw error;
    }
  }

  /** Does nothing, because `#readText` logs its errors. */
  onError(): void {}

  /** Ends the lifetime of the request and the wait for the run. If the client left early, this may cancel the run. */
  release(): void {
    this.#context.bodyBudget.endRequest();
    this.#releaseRun();
  }

  /** Marks the body as ended and releases the memory of the result. */
  onEnd(): void {
    this.#isEnded = true;
    this.#reservation?.release();
  }

  stalled_ms(): number | undefined {
    return this.#reservation ? this.#context.bodyBudget.stalled_ms : undefined;
  }

  /**
   * Loads the result into `#text`. A large one that does not fit the byte budget waits without a time limit: in memory
   * if it cannot be read again, else it is dropped and read again.
   */
  async #load(): Promise<void> {
    const { bodyBudget } = this.#context;
    const length = await this.#tryLoad();
    if (length <= LARGE_BYTES || this.#reservation) return;
    if (this.#text) return this.#setReservation(await bodyBudget.reserveShared(this.#text, length));
    this.#setReservation(await bodyBudget.reserve(length, true));
    this.#text = await this.#readText((this.#rereadResult as () => Promise<Json>)());
  }

  /**
   * Loads the result and returns its length. Keeps the text only if it is small, fits the budget, or cannot be read again. A
   * separate function, so that nothing refers to a dropped result while the body waits.
   */
  async #tryLoad(): Promise<number> {
    const result = this.#result as RunWait["result"];
    this.#result = undefined;
    const text = await this.#readText(result);
    const { length } = text.json;
    if (length > LARGE_BYTES) this.#setReservation(this.#context.bodyBudget.tryReserveShared(text, length));
    if (length <= LARGE_BYTES || this.#reservation || !this.#rereadResult) this.#text = text;
    return length;
  }

  /**
   * Returns the result as JSON text, `{}` for null. Throws `not_found`. Logs any other error and returns a text with
   * `__error__` for it.
   */
  async #readText(result: Promise<Json | null>): Promise<SharedText> {
    try {
      return stringifyShared((await result) ?? {});
    } catch (error) {
      if (isNotFound(error)) throw error;
      const { run_id, thread_id } = this.#ids;
      const ids = { run_id, thread_id, request_id: this.#context.request_id };
      const { environment } = this.#context.handler.streamingBodies;
      environment.log({ level: "error", message: "Waiting for a result failed", ...ids, error });
      return stringifyShared({ __error__: { error: "InternalServerError", message: "Internal server error" } });
    }
  }

  /** Keeps the reservation until the body ends. Releases it at once if the body has ended during a wait. */
  #setReservation(reservation: Reservation | null): void {
    if (this.#isEnded) reservation?.release();
    else this.#reservation = reservation;
  }
}

const isNotFound = (error: unknown): boolean => error instanceof ServiceError && error.code === "not_found";
