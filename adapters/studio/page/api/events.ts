/** The thread event protocol: commands to a thread, and its events as they come. */
import { call, client, requestRoute } from "./client.ts";
import { Failure } from "./failure.ts";

export interface ThreadEvent {
  readonly event_id: string;
  readonly seq: number;
  readonly method: string;
  readonly params: {
    /** Empty for the graph itself, else `<node>:<task id>` of each level. */
    readonly namespace: readonly string[];
    /** Milliseconds since 1970, by the server's clock. */
    readonly timestamp: number;
    readonly data: unknown;
  };
}

/** The number of `seq` values of one claim of a thread: the first `seq` of the nth claim is n * 2^32. */
export const SEQS_PER_CLAIM: number = 2 ** 32;

interface CommandResponse {
  readonly type: "success" | "error";
  readonly error?: string;
  readonly message?: string;
  readonly result?: { readonly run_id: string };
  readonly meta?: { readonly applied_through_seq?: number };
}

export interface StartedRun {
  readonly run_id: string;
  /** The `seq` of the last event before the run. */
  readonly since: number;
}

const toThreadPath = (thread_id: string): string => `/threads/${encodeURIComponent(thread_id)}`;
let lastCommandId = 0;

/**
 * Sends a command that starts a run, and resolves with the run and the last `seq` before its events. Rejects with a
 * `Failure` if the server started none: status 409 if the interrupt is gone, else 422.
 */
export async function sendCommand(thread_id: string, method: string, params: unknown): Promise<StartedRun> {
  const body = { id: ++lastCommandId, method, params };
  const { type, error, message, result, meta } = await call<CommandResponse>(
    "POST",
    `${toThreadPath(thread_id)}/commands`,
    {
      body,
    },
  );
  if (type === "error" || !result) throw new Failure(error === "no_such_interrupt" ? 409 : 422, message ?? "Refused");
  return { run_id: result.run_id, since: meta?.applied_through_seq ?? 0 };
}

/**
 * Answers interrupts, all of them in one run, and resolves with that. Rejects with a `Failure` of status 409 if another
 * answer came first; reads the thread to find that out.
 */
export async function respond(thread_id: string, answers: Readonly<Record<string, unknown>>): Promise<StartedRun> {
  const responses = Object.entries(answers).map(([interrupt_id, response]) => ({ interrupt_id, response }));
  try {
    return await sendCommand(thread_id, "input.respond", { responses });
  } catch (error) {
    // A thread that waits no more has another error than one with another question.
    const isLate =
      error instanceof Failure &&
      (error.status === 409 ||
        (error.status === 422 && (await client.threads.get(thread_id)).status !== "interrupted"));
    throw isLate ? new Failure(409, "another answer came first, so this one was not used") : error;
  }
}

/**
 * Yields the lines of a body without their ends; text after the last line end is dropped. Cancels the body at the end.
 * Searches each chunk once, because a line may hold a large value.
 */
async function* readLines(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.pipeThrough(new TextDecoderStream() as TransformStream<Uint8Array, string>).getReader();
  let parts: string[] = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const [head = "", ...nextLines] = value.split("\n");
      parts.push(head);
      for (const next of nextLines) {
        yield parts.join("");
        parts = [next];
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** A frame of a stream of server-sent events. */
export interface EventFrame {
  readonly id: string;
  readonly event: string;
  readonly data: string;
}

const EMPTY_FRAME: EventFrame = { id: "", event: "message", data: "" };

/** Yields the frames of a body; comments and a frame without an end are dropped. Cancels the body at the end. */
export async function* readFrames(body: ReadableStream<Uint8Array>): AsyncGenerator<EventFrame> {
  let frame = EMPTY_FRAME;
  for await (const line of readLines(body)) {
    const [, name, value] = /^(id|event|data): ?(.*)$/.exec(line) ?? [];
    if (name) frame = { ...frame, [name]: value };
    if (line !== "" || frame === EMPTY_FRAME) continue;
    yield frame;
    frame = EMPTY_FRAME;
  }
}

/** Yields the stored and then the live events of a thread after `since`. Ends when the server closes the stream. */
export async function* threadEvents(
  thread_id: string,
  filter: { readonly channels: readonly string[]; readonly since: number },
  signal: AbortSignal,
): AsyncGenerator<ThreadEvent> {
  const response = await requestRoute("POST", `${toThreadPath(thread_id)}/stream/events`, {
    body: filter,
    signal,
    headers: { accept: "text/event-stream" },
  });
  if (!response.body) return;
  for await (const line of readLines(response.body)) {
    if (line.startsWith("data:")) yield JSON.parse(line.slice(5)) as ThreadEvent;
  }
}
