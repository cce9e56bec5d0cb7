/** The plain HTTP client of the soak programs: it retries nothing and hides nothing. */
import { Agent, type ClientRequest, type IncomingMessage, request as send } from "node:http";

export interface Answer {
  readonly status: number;
  /** The body as JSON; null when it is empty. */
  // biome-ignore lint/suspicious/noExplicitAny: answers are read field by field, a wrong one shows as a violation.
  readonly body: any;
}

/** One server-sent event, as its bytes were. */
export interface Frame {
  readonly id: string | null;
  readonly event: string;
  readonly data: string;
}

export interface RequestOptions {
  readonly headers?: Readonly<Record<string, string>>;
  readonly timeout_ms?: number;
}

/**
 * The connection broke before the whole answer was there: what became of the request is not known. Or the server is stopping, or
 * cannot reach its database, and said so.
 */
export class Broken extends Error {
  constructor(what: string, cause: unknown) {
    super(`${what}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
    this.name = "Broken";
  }
}

export interface Client {
  /** Any status is an answer. Throws Broken where there was none. */
  call(method: string, path: string, body?: unknown, options?: RequestOptions): Promise<Answer>;
  /** As `call`, but throws for a status from 400 on. */
  // biome-ignore lint/suspicious/noExplicitAny: as above.
  get(method: string, path: string, body?: unknown, options?: RequestOptions): Promise<any>;
  /** Shows each frame as it comes. Resolves at the end of the body; throws Broken when it breaks off. */
  stream(
    method: string,
    path: string,
    body: unknown,
    onFrame: (frame: Frame) => void,
    options?: RequestOptions & { readonly onHead?: (response: IncomingMessage) => void },
  ): Promise<number>;
  close(): void;
}

const TIMEOUT_MS = 60_000;
/** The response of a server that has lost its database in the middle of a call. */
const UNKNOWN = /whether it took effect is not known/;

export function connect(url: string): Client {
  const { hostname, port } = new URL(url);
  const agent = new Agent({ keepAlive: true, maxSockets: 512, maxFreeSockets: 64 });
  const streams = new Agent({ keepAlive: false, maxSockets: 4096 });

  function open(
    method: string,
    path: string,
    body: unknown,
    { headers = {}, timeout_ms = TIMEOUT_MS }: RequestOptions,
    using: Agent,
    onResponse: (response: IncomingMessage, call: ClientRequest) => void,
    onError: (error: unknown) => void,
  ): void {
    const payload = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
    const all = payload
      ? { "content-type": "application/json", "content-length": String(payload.length), ...headers }
      : headers;
    const call = send({ hostname, port, method, path, agent: using, headers: all });
    call.setTimeout(timeout_ms, () => call.destroy(new Error(`no answer in ${timeout_ms} ms`)));
    call.on("error", onError);
    call.on("response", (response) => onResponse(response, call));
    call.end(payload);
  }

  const client: Client = {
    call: (method, path, body, options = {}) =>
      new Promise((resolve, reject) => {
        const fail = (error: unknown): void => reject(new Broken(`${method} ${path}`, error));
        open(
          method,
          path,
          body,
          options,
          agent,
          (response) => {
            const parts: Buffer[] = [];
            response.on("data", (part: Buffer) => parts.push(part));
            response.on("error", fail);
            response.on("close", () => fail("the answer broke off"));
            response.on("end", () => {
              if (response.statusCode === 503) return fail("503");
              const text = Buffer.concat(parts).toString();
              if (response.statusCode === 409 && UNKNOWN.test(text)) return fail(text);
              try {
                resolve({ status: response.statusCode ?? 0, body: text === "" ? null : JSON.parse(text) });
              } catch (error) {
                fail(error);
              }
            });
          },
          fail,
        );
      }),
    async get(method, path, body, options) {
      const { status, body: answer } = await client.call(method, path, body, options);
      if (status >= 400) throw new Error(`${method} ${path}: ${status} ${JSON.stringify(answer)}`);
      return answer;
    },
    stream: (method, path, body, onFrame, options = {}) =>
      new Promise((resolve, reject) => {
        const fail = (error: unknown): void => reject(new Broken(`${method} ${path}`, error));
        open(
          method,
          path,
          body,
          { ...options, headers: { accept: "text/event-stream", ...options.headers } },
          streams,
          (response) => {
            if (response.statusCode === 503) {
              response.resume();
              fail("503");
              return;
            }
            options.onHead?.(response);
            const take = createFrameReader(onFrame);
            response.setEncoding("utf8");
            response.on("data", take);
            response.on("error", fail);
            response.on("close", () => fail("the stream broke off"));
            response.on("end", () => resolve(response.statusCode ?? 0));
          },
          fail,
        );
      }),
    close() {
      agent.destroy();
      streams.destroy();
    },
  };
  return client;
}

/** Creates a client of several servers. It sends each request to a random one. */
export function createBalancedClient(clients: readonly Client[]): Client {
  const pickClient = (): Client => clients[Math.floor(Math.random() * clients.length)] as Client;
  return {
    call: (...of) => pickClient().call(...of),
    get: (...of) => pickClient().get(...of),
    stream: (...of) => pickClient().stream(...of),
    close() {
      for (const client of clients) client.close();
    },
  };
}

/** Cuts a stream of text into frames; comments are dropped. */
export function createFrameReader(onFrame: (frame: Frame) => void): (text: string) => void {
  let partialLine = "";
  let id: string | null = null;
  let event = "";
  let data: string | null = null;
  return (text) => {
    const lines = (partialLine + text).split("\n");
    partialLine = lines.pop() ?? "";
    for (const line of lines) {
      if (line.startsWith("id: ")) id = line.slice(4);
      else if (line.startsWith("event: ")) event = line.slice(7);
      else if (line.startsWith("data: ")) data = (data ?? "") + line.slice(6);
      else if (line === "" && (event !== "" || data !== null)) {
        onFrame({ id, event, data: data ?? "" });
        id = null;
        event = "";
        data = null;
      }
    }
  };
}
