/** Signals by LISTEN and NOTIFY on one separate session: in a write transaction, NOTIFY would serialize all commits. */
import type { SignalKind, SignalListener, Signals } from "../../lib/storage/mod.ts";
import { limited, type PostgresListener, type PostgresNotification, type Timer } from "./connection.ts";

const CHANNEL = "greenroom";
/** The server accepts less than 8,000 bytes. */
const MAX_PAYLOAD = 7_900;
/** The minimum interval between two statements. */
const SEND_MS = 30;
const MAX_PENDING = 10_000;
const ASK_MS = 5_000;
const ANSWER_MS = 5_000;
const LONGEST_RETRY_MS = 1_000;
const KINDS: ReadonlySet<string> = new Set<SignalKind>(["run", "events", "thread", "work", "deliveries"]);

export interface SignalsOptions {
  /** Opens a session; this module closes it. */
  readonly open: () => Promise<PostgresListener>;
  readonly timer: Timer;
  readonly now: () => number;
}

/** Connects on the first publish or subscribe, and again within a second after the session is lost. */
export function postgresSignals(options: SignalsOptions): Signals & { close(): Promise<void> } {
  return new Sender(options);
}

class Sender implements Signals {
  readonly #open: () => Promise<PostgresListener>;
  readonly #timer: Timer;
  readonly #now: () => number;
  readonly #listeners = new Set<SignalListener>();
  #session: PostgresListener | undefined;
  #connecting: Promise<void> | undefined;
  #closed = false;
  /** `kind:id` */
  #pending = new Set<string>();
  #due = false;
  #sending: Promise<void> | undefined;
  #sent_at = Number.NEGATIVE_INFINITY;
  #cancelAsk: (() => void) | undefined;
  #wake: (() => void) | undefined;

  constructor({ open, timer, now }: SignalsOptions) {
    this.#open = open;
    this.#timer = timer;
    this.#now = now;
  }

  publish(kind: SignalKind, id: string): void {
    if (this.#closed) return;
    // No session for a long time: after the next connection, subscribers re-read everything.
    if (this.#pending.size >= MAX_PENDING) this.#pending.clear();
    this.#pending.add(`${kind}:${id}`);
    this.#connect();
    this.#sendLater();
  }

  subscribe(listener: SignalListener): () => void {
    this.#listeners.add(listener);
    this.#connect();
    return () => void this.#listeners.delete(listener);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#cancelAsk?.();
    this.#wake?.();
    await this.#sending;
    if (this.#session) await this.#send(this.#session);
    dispose(this.#session);
    this.#session = undefined;
    await this.#connecting;
  }

  #connect(): void {
    if (this.#session || this.#closed) return;
    this.#connecting ??= this.#reconnect().finally(() => {
      this.#connecting = undefined;
      // The session may be lost already.
      this.#connect();
    });
  }

  async #reconnect(): Promise<void> {
    for (let tries = 0; !this.#closed; tries += 1) {
      if (await this.#start()) return;
      if (this.#closed) return;
      await new Promise<void>((resolve) => {
        const cancel = this.#timer(Math.min(50 * 2 ** tries, LONGEST_RETRY_MS), resolve);
        this.#wake = () => {
          cancel();
          resolve();
        };
      });
    }
  }

  /** True once a session listens. */
  async #start(): Promise<boolean> {
    let session: PostgresListener | undefined;
    let over = false;
    try {
      const opening = this.#open();
      session = await limited(opening, ANSWER_MS, this.#timer, "no session").catch((error: unknown) => {
        opening.then(dispose, () => {});
        throw error;
      });
      const opened = session;
      const lost = (): void => {
        over = true;
        this.#lost(opened);
      };
      opened.on("notification", (message) => this.#hear(message));
      opened.on("error", lost);
      opened.on("end", lost);
      // NOTIFY commits too. Signals may be lost, so they need not wait for the disk.
      for (const text of ["set synchronous_commit to off", `listen ${CHANNEL}`]) {
        await limited(opened.query(text), ANSWER_MS, this.#timer, "no answer");
      }
      if (over || this.#closed) throw new Error("The session has ended");
    } catch {
      dispose(session);
      return false;
    }
    this.#session = session;
    this.#askLater(session);
    this.#tell((listener) => listener.onGap());
    this.#sendLater();
    return true;
  }

  #lost(session: PostgresListener): void {
    if (this.#session !== session) return;
    this.#session = undefined;
    this.#cancelAsk?.();
    dispose(session);
    this.#connect();
  }

  /** Checks the session: the network, or a proxy in between, may drop a connection silently. */
  #askLater(session: PostgresListener): void {
    this.#cancelAsk = this.#timer(ASK_MS, () => {
      limited(session.query("select 1"), ANSWER_MS, this.#timer, "no answer").then(
        () => {
          if (this.#session === session && !this.#closed) this.#askLater(session);
        },
        () => this.#lost(session),
      );
    });
  }

  #hear({ channel, payload }: PostgresNotification): void {
    if ((channel !== undefined && channel !== CHANNEL) || this.#closed) return;
    for (const signal of signalsIn(payload)) {
      const at = signal.indexOf(":");
      const kind = signal.slice(0, at);
      if (!KINDS.has(kind)) continue;
      this.#tell((listener) => listener.onSignal(kind as SignalKind, signal.slice(at + 1)));
    }
  }

  #tell(work: (listener: SignalListener) => void): void {
    for (const listener of [...this.#listeners]) {
      try {
        work(listener);
      } catch {
        // A listener that throws must not keep the signal from the others.
      }
    }
  }

  /** Sends at once if nothing was sent lately; else later, with everything published until then. */
  #sendLater(): void {
    if (this.#due || this.#sending || this.#closed || !this.#session || this.#pending.size === 0) return;
    this.#due = true;
    const wait_ms = this.#sent_at + SEND_MS - this.#now();
    const send = (): void => {
      this.#due = false;
      const session = this.#session;
      if (!session || this.#closed) return;
      this.#sending = this.#send(session).finally(() => {
        this.#sending = undefined;
        this.#sendLater();
      });
    };
    if (wait_ms > 0) this.#timer(wait_ms, send);
    else queueMicrotask(send);
  }

  async #send(session: PostgresListener): Promise<void> {
    const signals = [...this.#pending];
    const texts = payloads(signals);
    this.#pending.clear();
    this.#sent_at = this.#now();
    if (texts.length === 0) return;
    const calls = texts.map((_, at) => `pg_notify('${CHANNEL}', $${at + 1})`).join(", ");
    try {
      await limited(session.query(`select ${calls}`, texts), ANSWER_MS, this.#timer, "no answer");
    } catch {
      // It is unknown whether they were sent. Duplicates are allowed.
      for (const signal of signals) this.#pending.add(signal);
      this.#lost(session);
    }
  }
}

const encoder = new TextEncoder();

/** Lists of signals as JSON, each within the size limit. Omits a signal that is too long by itself. */
function payloads(signals: readonly string[]): string[] {
  const texts: string[] = [];
  let list: string[] = [];
  let bytes = 2;
  for (const signal of signals) {
    const text = JSON.stringify(signal.toWellFormed());
    const size = encoder.encode(text).byteLength + 1;
    if (size + 2 > MAX_PAYLOAD) continue;
    if (bytes + size > MAX_PAYLOAD) {
      texts.push(`[${list.join(",")}]`);
      [list, bytes] = [[], 2];
    }
    list.push(text);
    bytes += size;
  }
  if (list.length > 0) texts.push(`[${list.join(",")}]`);
  return texts;
}

/** Other programs may use the same channel name. */
function signalsIn(payload: string | undefined): string[] {
  try {
    const list: unknown = JSON.parse(payload ?? "");
    return Array.isArray(list) ? list.filter((signal) => typeof signal === "string") : [];
  } catch {
    return [];
  }
}

/** Closes a session in any state. */
export function dispose(session: PostgresListener | undefined): void {
  try {
    const ended: unknown = session?.release ? session.release(true) : session?.end?.();
    Promise.resolve(ended).catch(() => {});
  } catch {
    // It had ended before.
  }
}
