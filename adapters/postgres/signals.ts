/** Signals by LISTEN and NOTIFY on one separate session: in a write transaction, NOTIFY would serialize all commits. */
import type { SignalKind, SignalListener, Signals } from "../../lib/storage/mod.ts";
import { type PostgresListener, type PostgresNotification, type Timer, withTimeLimit } from "./connection.ts";

const CHANNEL = "greenroom";
/** The server accepts less than 8,000 bytes. */
const MAX_PAYLOAD_BYTES = 7_900;
/** The minimum interval between two statements. */
const SEND_INTERVAL_MS = 30;
const MAX_PENDING_SIGNALS = 10_000;
const PING_INTERVAL_MS = 5_000;
const RESPONSE_TIMEOUT_MS = 5_000;
const MAX_RETRY_DELAY_MS = 1_000;
const KINDS: ReadonlySet<string> = new Set<SignalKind>(["run", "events", "thread", "work", "deliveries"]);

export interface SignalsOptions {
  /** Opens a session; this module closes it. */
  readonly open: () => Promise<PostgresListener>;
  readonly timer: Timer;
  readonly now: () => number;
}

/** Connects on the first publish or subscribe, and again within a second after the session is lost. */
export function createPostgresSignals(options: SignalsOptions): Signals & { close(): Promise<void> } {
  return new SignalConnection(options);
}

class SignalConnection implements Signals {
  readonly #open: () => Promise<PostgresListener>;
  readonly #timer: Timer;
  readonly #now: () => number;
  readonly #listeners = new Set<SignalListener>();
  #session: PostgresListener | undefined;
  #connecting: Promise<void> | undefined;
  #closed = false;
  /** `kind:id` */
  #pending = new Set<string>();
  #isScheduled = false;
  #sending: Promise<void> | undefined;
  #lastSentAt = Number.NEGATIVE_INFINITY;
  #cancelPing: (() => void) | undefined;
  #wake: (() => void) | undefined;

  constructor({ open, timer, now }: SignalsOptions) {
    this.#open = open;
    this.#timer = timer;
    this.#now = now;
  }

  /**
   * Queues a signal, once if it is queued already, and returns at once. Connects if needed. Signals may be lost: if too many wait
   * for a session, they are dropped, and after it connects, subscribers read everything again. Does nothing once closed.
   */
  publish(kind: SignalKind, id: string): void {
    if (this.#closed) return;
    // No session for a long time: after the next connection, subscribers re-read everything.
    if (this.#pending.size >= MAX_PENDING_SIGNALS) this.#pending.clear();
    this.#pending.add(`${kind}:${id}`);
    this.#connect();
    this.#scheduleSend();
  }

  /** Adds a listener and starts to connect. Returns a function that removes the listener; the connection stays. */
  subscribe(listener: SignalListener): () => void {
    this.#listeners.add(listener);
    this.#connect();
    return () => void this.#listeners.delete(listener);
  }

  /**
   * Sends what is queued, if there is a session, then closes it. Resolves when no attempt to connect is left. Later
   * calls resolve at once.
   */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#cancelPing?.();
    this.#wake?.();
    await this.#sending;
    if (this.#session) await this.#send(this.#session);
    dispose(this.#session);
    this.#session = undefined;
    await this.#connecting;
  }

  /** Starts to connect, unless there is a session or an attempt, or the connection is closed. Returns at once. */
  #connect(): void {
    if (this.#session || this.#closed) return;
    this.#connecting ??= this.#reconnect().finally(() => {
      this.#connecting = undefined;
      // The session may be lost already.
      this.#connect();
    });
  }

  /** Tries to connect, with growing delays, until a session listens or the connection is closed. Never rejects. */
  async #reconnect(): Promise<void> {
    for (let tries = 0; !this.#closed; tries += 1) {
      if (await this.#start()) return;
      if (this.#closed) return;
      await new Promise<void>((resolve) => {
        const cancel = this.#timer(Math.min(50 * 2 ** tries, MAX_RETRY_DELAY_MS), resolve);
        this.#wake = () => {
          cancel();
          resolve();
        };
      });
    }
  }

  /**
   * Opens a session that listens. Then tells all listeners that signals may have been missed, and sends what is queued. Returns
   * false, and closes the session, if that fails.
   */
  async #start(): Promise<boolean> {
    let session: PostgresListener | undefined;
    let hasEnded = false;
    try {
      const opening = this.#open();
      session = await withTimeLimit(opening, RESPONSE_TIMEOUT_MS, this.#timer, "no session").catch((error: unknown) => {
        opening.then(dispose, () => {});
        throw error;
      });
      const opened = session;
      const handleLoss = (): void => {
        hasEnded = true;
        this.#handleLoss(opened);
      };
      opened.on("notification", (message) => this.#handleNotification(message));
      opened.on("error", handleLoss);
      opened.on("end", handleLoss);
      // NOTIFY commits too. Signals may be lost, so they need not wait for the disk.
      for (const text of ["set synchronous_commit to off", `listen ${CHANNEL}`]) {
        await withTimeLimit(opened.query(text), RESPONSE_TIMEOUT_MS, this.#timer, "no answer");
      }
      if (hasEnded || this.#closed) throw new Error("The session has ended");
    } catch {
      dispose(session);
      return false;
    }
    this.#session = session;
    this.#schedulePing(session);
    this.#notifyListeners((listener) => listener.onGap());
    this.#scheduleSend();
    return true;
  }

  /** Closes the current session and starts to connect again. Does nothing for a session that is not the current one. */
  #handleLoss(session: PostgresListener): void {
    if (this.#session !== session) return;
    this.#session = undefined;
    this.#cancelPing?.();
    dispose(session);
    this.#connect();
  }

  /**
   * Checks the session later, again and again, because the network, or a proxy in between, may drop a connection silently. A
   * session that does not answer is replaced.
   */
  #schedulePing(session: PostgresListener): void {
    this.#cancelPing = this.#timer(PING_INTERVAL_MS, () => {
      withTimeLimit(session.query("select 1"), RESPONSE_TIMEOUT_MS, this.#timer, "no answer").then(
        () => {
          if (this.#session === session && !this.#closed) this.#schedulePing(session);
        },
        () => this.#handleLoss(session),
      );
    });
  }

  /** Passes the signals of a notification to the listeners. Ignores other channels, payloads and kinds. */
  #handleNotification({ channel, payload }: PostgresNotification): void {
    if ((channel !== undefined && channel !== CHANNEL) || this.#closed) return;
    for (const signal of parsePayload(payload)) {
      const index = signal.indexOf(":");
      const kind = signal.slice(0, index);
      if (!KINDS.has(kind)) continue;
      this.#notifyListeners((listener) => listener.onSignal(kind as SignalKind, signal.slice(index + 1)));
    }
  }

  /** Calls `work` for each listener. Errors are dropped: a listener that throws must not keep the signal from the others. */
  #notifyListeners(work: (listener: SignalListener) => void): void {
    for (const listener of [...this.#listeners]) {
      try {
        work(listener);
      } catch {
        // A listener that throws must not keep the signal from the others.
      }
    }
  }

  /**
   * Schedules what is queued: at once if nothing was sent lately, else later, with everything published until then. Does nothing
   * without a session, or if a send is scheduled or running.
   */
  #scheduleSend(): void {
    if (this.#isScheduled || this.#sending || this.#closed || !this.#session || this.#pending.size === 0) return;
    this.#isScheduled = true;
    const wait_ms = this.#lastSentAt + SEND_INTERVAL_MS - this.#now();
    const send = (): void => {
      this.#isScheduled = false;
      const session = this.#session;
      if (!session || this.#closed) return;
      this.#sending = this.#send(session).finally(() => {
        this.#sending = undefined;
        this.#scheduleSend();
      });
    };
    if (wait_ms > 0) this.#timer(wait_ms, send);
    else queueMicrotask(send);
  }

  /**
   * Sends what is queued. Never rejects: after a failure the signals are queued again, perhaps twice sent, and the session is
   * replaced.
   */
  async #send(session: PostgresListener): Promise<void> {
    const signals = [...this.#pending];
    const texts = createPayloads(signals);
    this.#pending.clear();
    this.#lastSentAt = this.#now();
    if (texts.length === 0) return;
    const calls = texts.map((_, index) => `pg_notify('${CHANNEL}', $${index + 1})`).join(", ");
    try {
      await withTimeLimit(session.query(`select ${calls}`, texts), RESPONSE_TIMEOUT_MS, this.#timer, "no answer");
    } catch {
      // It is unknown whether they were sent. Duplicates are allowed.
      for (const signal of signals) this.#pending.add(signal);
      this.#handleLoss(session);
    }
  }
}

const encoder = new TextEncoder();

/**
 * Returns lists of signals as JSON, each within the size limit; empty for no signals. Omits a signal that is too long by itself.
 */
function createPayloads(signals: readonly string[]): string[] {
  const texts: string[] = [];
  let list: string[] = [];
  let bytes = 2;
  for (const signal of signals) {
    const text = JSON.stringify(signal.toWellFormed());
    const size = encoder.encode(text).byteLength + 1;
    if (size + 2 > MAX_PAYLOAD_BYTES) continue;
    if (bytes + size > MAX_PAYLOAD_BYTES) {
      texts.push(`[${list.join(",")}]`);
      [list, bytes] = [[], 2];
    }
    list.push(text);
    bytes += size;
  }
  if (list.length > 0) texts.push(`[${list.join(",")}]`);
  return texts;
}

/** Returns the signals of a notification. Empty for payloads of other programs, which may use the same channel name. */
function parsePayload(payload: string | undefined): string[] {
  try {
    const list: unknown = JSON.parse(payload ?? "");
    return Array.isArray(list) ? list.filter((signal) => typeof signal === "string") : [];
  } catch {
    return [];
  }
}

/** Closes a session in any state, also none. Never throws. */
export function dispose(session: PostgresListener | undefined): void {
  try {
    const ended: unknown = session?.release ? session.release(true) : session?.end?.();
    Promise.resolve(ended).catch(() => {});
  } catch {
    // It had ended before.
  }
}
