/** Calls each host of the examples with a stock client. */
import assert from "node:assert/strict";
import { Client } from "langgraph-sdk-2";
import { until } from "../support/until.ts";

export { until };

/** The address at which a host serves agents, and the agent that is called. */
export interface Hosted {
  readonly apiUrl: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly graph: string;
  readonly input: { readonly messages: { readonly role: string; readonly content: string }[] };
  /** The agent's answer to the first input on a thread. */
  readonly says: RegExp;
}

export const human = (content: string): Hosted["input"] => ({ messages: [{ role: "user", content }] });

type Message = { readonly content: unknown };
export const last = (values: unknown): string => String((values as { messages: Message[] }).messages.at(-1)?.content);

export function createClient({ apiUrl, headers }: Pick<Hosted, "apiUrl" | "headers">): Client {
  return new Client({
    apiUrl,
    apiKey: null,
    ...(headers ? { defaultHeaders: headers } : {}),
    callerOptions: { maxRetries: 0 },
  });
}

/** Creates a thread, streams a run, waits for another, and checks what the thread stores. */
export async function converse(host: Hosted): Promise<void> {
  const { graph, input, says } = host;
  const client = createClient(host);
  const { thread_id } = await client.threads.create({ metadata: { of: "hosts" } });
  const tokens: string[] = [];
  const events: string[] = [];
  for await (const { event, data } of client.runs.stream(thread_id, graph, { input, streamMode: "messages-tuple" })) {
    events.push(event);
    if (event === "messages") tokens.push(String(data[0].content));
  }
  assert.deepEqual([events[0], events.at(-1)], ["metadata", "end"]);
  assert.match(tokens.join(""), says);
  await client.runs.wait(thread_id, graph, { input });
  const { values } = await client.threads.getState(thread_id);
  assert.equal((values as unknown as Hosted["input"]).messages.length, 4);
  const threads = await client.threads.search({ metadata: { of: "hosts" } });
  assert.ok(threads.some((thread) => thread.thread_id === thread_id));
  await assert.rejects(client.runs.wait(null, "nobody", { input }), { status: 404 });
  await client.threads.delete(thread_id);
  await assert.rejects(client.threads.get(thread_id), { status: 404 });
}

/** Leaves the agent `counter` in the middle of its work: its run ends, and the thread is free for the next. */
export async function leaveCounting(host: Hosted): Promise<void> {
  const client = createClient(host);
  const { thread_id } = await client.threads.create();
  const endless = { input: human("180000"), streamMode: "messages-tuple", event: "messages" } as const;
  await leaveAfter(host, client, { thread_id, ...endless });
  await until(async () => (await client.runs.list(thread_id))[0]?.status === "interrupted");
  assert.equal(last(await client.runs.wait(thread_id, "counter", { input: human("1") })), "1 ");
}

/** Opens the stream of a run that starts in an hour. Resolves once its answer has begun. */
export async function openQuietStream(host: Hosted): Promise<{
  readonly client: Client;
  readonly thread_id: string;
  readonly run_id: string;
  leave(): Promise<void>;
}> {
  const { graph, input } = host;
  const client = createClient(host);
  const { thread_id } = await client.threads.create();
  const disconnect = new AbortController();
  const created = Promise.withResolvers<string>();
  const reading = (async () => {
    const stream = client.runs.stream(thread_id, graph, {
      input,
      afterSeconds: 3600,
      onDisconnect: "cancel",
      signal: disconnect.signal,
      onRunCreated: ({ run_id }) => created.resolve(run_id),
    });
    for await (const _ of stream);
  })();
  reading.catch(created.reject);
  const run_id = await created.promise;
  return {
    client,
    thread_id,
    run_id,
    async leave() {
      disconnect.abort();
      await reading.catch(() => {});
    },
  };
}

/** A reader that goes away reaches the run, though nothing is being sent; and the host goes on. */
export async function disconnect(host: Hosted): Promise<void> {
  const { client, thread_id, run_id, leave } = await openQuietStream(host);
  assert.equal((await client.runs.get(thread_id, run_id)).status, "pending");
  await leave();
  await until(async () => (await client.runs.get(thread_id, run_id)).status === "interrupted");
  assert.equal((await client.runs.list(thread_id)).length, 1);
}

/** Reads the stream of a run up to an event, and goes away in the middle of it. */
export async function leaveAfter(host: Pick<Hosted, "graph">, client: Client, of: LeaveOptions): Promise<void> {
  const disconnect = new AbortController();
  const { thread_id, event: last, ...request } = of;
  const stream = client.runs.stream(thread_id, host.graph, {
    ...request,
    onDisconnect: "cancel",
    signal: disconnect.signal,
  });
  try {
    for await (const { event } of stream) if (event === last) disconnect.abort();
  } catch (error) {
    if (!disconnect.signal.aborted) throw error;
  }
}

interface LeaveOptions {
  readonly thread_id: string;
  readonly input: Hosted["input"];
  readonly streamMode: "messages-tuple" | "updates";
  readonly event: string;
}
