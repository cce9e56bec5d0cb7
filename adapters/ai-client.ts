/**
 * Helpers for pages with the AI SDK: `resumingFetch` continues a chat when its connection breaks, for example during a deployment.
 * @module
 */

/** A `fetch`. */
export type Fetch = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

/** The delays before the retries, in milliseconds. The last one repeats. */
const RETRY_DELAYS_MS = [1_000, 2_000, 4_000, 5_000];
/** After this number of retries the body fails. */
const MAX_RETRIES = 60;

/**
 * Returns a `fetch` for `DefaultChatTransport`. When the body of a chat breaks, it requests what follows the last
 * event, and continues in the same body: the page sees a pause. Other responses are returned as they are, and so is
 * that of a chat without an id.
 *
 * @example
 * ```ts
 * import { useChat } from "@ai-sdk/react";
 * import { DefaultChatTransport } from "ai";
 * import { resumingFetch } from "greenroom/ai-client";
 *
 * const transport = new DefaultChatTransport({ api: "/ai/agent/chat", fetch: resumingFetch() });
 * const chat = useChat({ id: "chat-1", transport });
 * ```
 */
export function resumingFetch(fetch: Fetch = (input, init) => globalThis.fetch(input, init)): typeof globalThis.fetch {
  const fetchWithRejoin: Fetch = async (input, init = {}) => {
    const response = await fetch(input, init);
    const streamUrl = findStreamUrl(input, init);
    const isChat = response.headers.has("x-vercel-ai-ui-message-stream");
    if (!isChat || !response.body || streamUrl === null) return response;
    const { status, headers } = response;
    const body = createContinuedBody(response.body, init.signal ?? undefined, (lastEventId) =>
      fetch(streamUrl, { ...init, method: "GET", body: null, headers: withLastEventId(init.headers, lastEventId) }),
    );
    return new Response(body, { status, headers });
  };
  // Some runtimes add members to their `fetch`, which transports do not use.
  return fetchWithRejoin as typeof globalThis.fetch;
}

/**
 * Returns the URL at which the stream of a chat continues: that of a GET request itself, else one below it with the chat id
 * of the body. Null if the body is no JSON or has no id.
 */
function findStreamUrl(input: string | URL | Request, { method = "GET", body }: RequestInit): string | null {
  const url = input instanceof Request ? input.url : String(input);
  if (method === "GET") return url;
  try {
    const { id, ai_sdk } = JSON.parse(String(body)) as { readonly id?: unknown; readonly ai_sdk?: unknown };
    if (typeof id !== "string") return null;
    // Other versions fail on chunks of version 7.
    const version = ai_sdk === undefined ? "" : `?ai_sdk=${encodeURIComponent(String(ai_sdk))}`;
    return `${url.replace(/[?#].*$/, "")}/${encodeURIComponent(id)}/stream${version}`;
  } catch {
    return null;
  }
}

/** Returns a copy of the headers with the last event id and without the content type. */
function withLastEventId(init: HeadersInit | undefined, lastEventId: string): Headers {
  const headers = new Headers(init);
  headers.delete("content-type");
  headers.set("last-event-id", lastEventId);
  return headers;
}

/** Resolves after `ms`. Rejects with the reason of the signal when it aborts meanwhile. */
const delay = (ms: number, signal: AbortSignal | undefined): Promise<void> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });

/**
 * Returns a body of the complete events of `firstBody`, and then of the bodies that continue it after a break, up to
 * `[DONE]`. `fetchNextBody` gets the id of the last complete event. Rejects reads if it cannot be continued or the
 * signal aborts.
 */
function createContinuedBody(
  firstBody: ReadableStream<Uint8Array>,
  signal: AbortSignal | undefined,
  fetchNextBody: (lastEventId: string) => Promise<Response>,
): ReadableStream<Uint8Array> {
  const decoder = new TextDecoder();
  const encoder = new TextEncoder();
  let reader = firstBody.getReader();
  let unfinished = "";
  let lastEventId = "";

  /** Resolves with the next text of the body that is read; null when that ends or breaks. */
  async function readText(): Promise<string | null> {
    const { value, done } = await reader.read().catch((): { value?: Uint8Array; done: boolean } => ({ done: true }));
    return done || !value ? null : decoder.decode(value, { stream: true });
  }

  /**
   * Opens the next body after a break, behind the last complete event, and drops what came after that. Tries a few
   * times, with delays. Rejects with a TypeError at the end, at once for a status below 500 other than 200, and with
   * the reason of the signal.
   */
  async function openNextBody(): Promise<void> {
    unfinished = "";
    for (let retries = 0; retries < MAX_RETRIES; retries++) {
      await delay(RETRY_DELAYS_MS[retries] ?? (RETRY_DELAYS_MS.at(-1) as number), signal);
      const response = await fetchNextBody(lastEventId).catch(() => null);
      signal?.throwIfAborted();
      if (response?.status === 200 && response.body) {
        reader = response.body.getReader();
        return;
      }
      await response?.body?.cancel();
      if (response && response.status < 500) break;
    }
    throw new TypeError("network error: the chat could not be continued");
  }

  return new ReadableStream<Uint8Array>({
    /** Enqueues the next complete events. A body that breaks or ends early is continued by another one. Closes after `[DONE]`. */
    async pull(controller) {
      for (;;) {
        const text = await readText();
        signal?.throwIfAborted();
        if (text === null) {
          await openNextBody();
          continue;
        }
        const eventsEnd = (unfinished + text).lastIndexOf("\n\n") + 2;
        if (eventsEnd < 2) {
          unfinished += text;
          continue;
        }
        const events = (unfinished + text).slice(0, eventsEnd);
        unfinished = (unfinished + text).slice(eventsEnd);
        lastEventId = [...events.matchAll(/^id: (.*)$/gm)].at(-1)?.[1] ?? lastEventId;
        controller.enqueue(encoder.encode(events));
        if (!events.endsWith("data: [DONE]\n\n")) return;
        controller.close();
        return;
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
}
