/** The one client of the API: the official SDK for its resources, and `call` for the routes that it does not have. */
import { Client } from "@langchain/langgraph-sdk/client";
import { signal } from "@preact/signals";
import { Failure, readErrorMessage } from "./failure.ts";
import { credential, declined, waitForCredential } from "./key.ts";

/** The folder of this page's files: bundles lie directly in it. */
export const STUDIO = new URL("./", import.meta.url).pathname;
/** The mount of the API, whatever the prefix. */
export const API = new URL("../", import.meta.url).href.replace(/\/$/, "");

export const isAway = signal(false);
/** Milliseconds that the server's clock is ahead of this one. Differences below 2 s are the resolution of the header. */
export const skew = signal(0);

const returnListeners: Set<() => void> = new Set();
/** Calls `listener` whenever the server answers again after it was away. Returns a function that ends that. */
export function onReturn(listener: () => void): () => void {
  returnListeners.add(listener);
  return () => returnListeners.delete(listener);
}

/**
 * Sets the skew to the clock of the server minus this one, in milliseconds, from the `Date` header; to 0 if they differ by two seconds or
 * less. Keeps it without a valid header.
 */
function measureSkew(response: Response): void {
  const serverTime = Date.parse(response.headers.get("date") ?? "");
  if (Number.isNaN(serverTime)) return;
  const difference = serverTime - Date.now();
  skew.value = Math.abs(difference) > 2000 ? difference : 0;
}

/** Returns the time by the server's clock, in milliseconds. */
export const serverNow = (): number => Date.now() + skew.value;

let probing = false;
/**
 * Marks the server as away and requests `/ok` after 1 s, then after growing delays up to 8 s, until any response comes,
 * also an error status. Then calls the listeners. Does nothing if a probe is running.
 */
async function probe(): Promise<void> {
  if (probing) return;
  probing = true;
  isAway.value = true;
  for (let wait = 1000; ; wait = Math.min(wait * 1.5, 8000)) {
    await new Promise((resolve) => setTimeout(resolve, wait));
    try {
      await fetch(`${API}/ok`, { cache: "no-store" });
      break;
    } catch {
      // Still away.
    }
  }
  probing = false;
  isAway.value = false;
  for (const listener of returnListeners) listener();
}

/**
 * Sends a request with the credential. Opens the key prompt and repeats the request on 401. Rejects with a `Failure`
 * for other error statuses, and with status 0 without a response, which also starts the probe; an abort rejects as it
 * is. Sets the skew of the clocks.
 */
async function request(input: string | URL | Request, init: RequestInit = {}): Promise<Response> {
  for (;;) {
    const usedCredential = credential.value;
    const headers = new Headers(init.headers);
    if (usedCredential)
      headers.set(
        usedCredential.scheme,
        usedCredential.scheme === "authorization" ? `Bearer ${usedCredential.value}` : usedCredential.value,
      );
    let response: Response;
    try {
      response = await fetch(input, { ...init, headers });
    } catch (error) {
      if (init.signal?.aborted || (error as Error).name === "AbortError") throw error;
      void probe();
      throw new Failure(0, "The server does not answer");
    }
    measureSkew(response);
    if (response.status === 401) {
      if (await waitForCredential(usedCredential)) continue;
      throw new Failure(401, "This server needs a key");
    }
    if (!response.ok) throw new Failure(response.status, readErrorMessage(response.status, await response.text()));
    declined.value = false;
    return response;
  }
}

export const client: Client = new Client({
  apiUrl: API,
  apiKey: null as unknown as string,
  callerOptions: { fetch: request as typeof fetch, maxRetries: 0, maxConcurrency: 16 },
});

type QueryValue = string | number | boolean | null | undefined | readonly string[];

export interface CallOptions {
  readonly query?: Readonly<Record<string, QueryValue>>;
  readonly body?: unknown;
  readonly signal?: AbortSignal;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Returns the URL of a route. Empty, null and undefined parameters are omitted; a list becomes several. */
function toUrl(path: string, query: CallOptions["query"] = {}): URL {
  const url = new URL(`${API}${path}`);
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null || value === "") continue;
    for (const element of Array.isArray(value) ? (value as readonly string[]) : [value]) {
      url.searchParams.append(name, String(element));
    }
  }
  return url;
}

/**
 * Sends a request with the credential and resolves with the response. Opens the key prompt and repeats the request on
 * 401. Rejects with a `Failure` for every other error status, and with status 0 if the server does not answer.
 */
export async function requestRoute(method: string, path: string, options: CallOptions = {}): Promise<Response> {
  const { query, body, signal: abort, headers } = options;
  return await request(toUrl(path, query), {
    method,
    // A deletion goes through although the page closes.
    keepalive: method === "DELETE",
    ...(abort ? { signal: abort } : {}),
    headers: { ...(body === undefined ? {} : { "content-type": "application/json" }), ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

/**
 * Sends a request and resolves with the JSON of the response, without a check of its type; undefined for status 202 and
 * 204. Rejects as `requestRoute`.
 */
export async function call<T>(method: string, path: string, options: CallOptions = {}): Promise<T> {
  const response = await requestRoute(method, path, options);
  if (response.status === 204 || response.status === 202) return undefined as T;
  return (await response.json()) as T;
}
