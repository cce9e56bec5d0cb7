/**
 * `client`: typed calls of agents over HTTP, for browsers and servers. It uses the client of `@langchain/langgraph-sdk`.
 * @module
 */
import { Client } from "@langchain/langgraph-sdk";
import type { Graphs } from "../lib/executor/agent-types.ts";
import { waitUnlessAborted } from "../lib/handles/abort.ts";
import { createAgentHandle } from "../lib/handles/handle.ts";
import { isRefusal } from "../lib/handles/refusals.ts";
import type { ReceivedFrame, ReceivedState, RunRequest, RunTransport } from "../lib/handles/transport.ts";
import type { AgentCalls, RunRef } from "../lib/handles/types.ts";
import { isObject, type Json } from "../lib/json.ts";
import type { TypesOf } from "./app.ts";

export { RunFailed } from "../lib/handles/run-failed.ts";
export type * from "../lib/handles/types.ts";
export type * from "./app.ts";

/** The options of the client of the SDK. */
export type ClientOptions = NonNullable<ConstructorParameters<typeof Client>[0]>;

/** Calls of agents, and the client of the SDK for everything else. */
export interface GreenroomClient<Types extends Graphs> extends AgentCalls<Types> {
  readonly sdk: Client;
}

/**
 * Creates typed calls of the agents of a server. The type argument is the app, a configuration or an object of agents: it is
 * imported as a type, so nothing of the server gets into the bundle. Errors of HTTP are those of the SDK.
 *
 * @example
 * ```ts
 * import { client } from "greenroom/client";
 * import type { app } from "./server.ts";
 *
 * const greenroom = client<typeof app>({ apiUrl: "http://127.0.0.1:2024" });
 * const { messages } = await greenroom.agent("echo").run({ messages: "Hello" });
 * ```
 */
export function client<Source extends object>(options: ClientOptions | Client): GreenroomClient<TypesOf<Source>> {
  // A client of another copy of the SDK is no instance of this class.
  const sdk = "runs" in options ? options : new Client(options);
  const transport = createSdkTransport(sdk as unknown as SdkClient);
  return {
    sdk,
    agent: <Name extends keyof TypesOf<Source> & string>(name: Name) =>
      createAgentHandle<TypesOf<Source>[Name]>(transport, name),
  };
}

/** The part of the SDK's client that this module uses, of all its versions. */
interface SdkClient {
  readonly threads: {
    create(payload: SdkOptions & { readonly graphId: string }): Promise<RunRef>;
    delete(thread_id: string): Promise<unknown>;
    getState(thread_id: string): Promise<SdkState>;
    getHistory(thread_id: string, options: SdkOptions & { limit: number; metadata: object }): Promise<SdkState[]>;
  };
  readonly runs: {
    create(thread_id: string | null, assistant_id: string, payload: object): Promise<RunRef>;
    wait(thread_id: string | null, assistant_id: string, payload: SdkPayload): Promise<Json>;
    stream(thread_id: string | null, assistant_id: string, payload: SdkPayload): AsyncGenerator<SdkFrame>;
    join(thread_id: string, run_id: string, options: SdkOptions): Promise<Json>;
    get(thread_id: string, run_id: string, options: SdkOptions): Promise<SdkRun>;
  };
}

interface SdkOptions {
  readonly signal?: AbortSignal | undefined;
}

interface SdkPayload {
  readonly raiseError?: boolean;
  onRunCreated(created: Partial<RunRef>): void;
}

interface SdkFrame {
  readonly id?: string;
  readonly event: string;
  readonly data: Json;
}

interface SdkRun extends RunRef {
  readonly status: string;
  readonly cancel_reason?: string | null;
}

interface SdkState extends Pick<ReceivedState, "values" | "next"> {
  readonly tasks: readonly { readonly interrupts: readonly Json[] }[];
}

const getStatus = (error: unknown): unknown => (isObject(error) ? error["status"] : undefined);

/** Returns the code in the body of a refused request, which is in the message of the SDK's error. */
const getCode = (error: unknown): unknown => /"code":"(\w+)"/.exec(String(error))?.[1];

/** Returns null for an error with status 404. Throws any other one. */
function nullIfNotFound(error: unknown): null {
  if (getStatus(error) === 404) return null;
  throw error;
}

/** Converts a request to the names of the SDK. */
function toPayload(request: RunRequest, signal: AbortSignal | undefined): object {
  const { assistant_id: _, assistant_version, config, ...rest } = request;
  const { feedback_keys, multitask_strategy, stream_mode, stream_subgraphs, ...payload } = rest;
  // The SDK omits members that it does not know, except in `config`.
  const version = assistant_version === undefined ? {} : { assistant_version };
  return {
    ...payload,
    ...(config || assistant_version !== undefined ? { config: { ...config, ...version } } : {}),
    signal,
    feedbackKeys: feedback_keys,
    multitaskStrategy: multitask_strategy,
    streamMode: stream_mode,
    streamSubgraphs: stream_subgraphs,
  };
}

/** Returns values and next nodes of a state, and the interrupts of all its tasks in one list. */
const toReceivedState = ({ values, next, tasks }: SdkState): ReceivedState => ({
  values,
  next,
  interrupts: tasks.flatMap(({ interrupts }) => interrupts),
});

/** Creates the transport of runs over the LangGraph SDK. Waits end when the signal aborts. Reads of a missing run return null. */
function createSdkTransport({ runs, threads }: SdkClient): RunTransport {
  const create: RunTransport["create"] = async (threadOrNull, request, signal) => {
    const created = runs.create(threadOrNull, request.assistant_id, toPayload(request, signal));
    const { run_id, thread_id } = await waitUnlessAborted(created, signal);
    return { run_id, thread_id };
  };
  const join: RunTransport["join"] = ({ thread_id, run_id }, signal) =>
    waitUnlessAborted(runs.join(thread_id, run_id, { signal }).catch(nullIfNotFound), signal);
  return {
    create,
    join,
    createThread: async (graphId, signal) => (await threads.create({ graphId, signal })).thread_id,
    deleteThread: (thread_id) => threads.delete(thread_id),
    isRefusal: (error) => isRefusal(getStatus(error), getCode(error)),
    /**
     * Creates a run and resolves with it and its result. Without a thread, or with feedback keys, it creates and joins
     * the run in two requests, because `runs.wait` of the SDK leaves these out. Rejects when the signal aborts; the run
     * goes on.
     */
    async wait(thread_id, request, signal) {
      // `runs.wait` of the SDK leaves feedback keys out, and does not tell the thread of a stateless run.
      if (thread_id === null || request.feedback_keys) {
        const run = await create(thread_id, request, signal);
        return { run, result: await join(run, signal) };
      }
      let run_id = "";
      const result = runs.wait(thread_id, request.assistant_id, {
        ...toPayload(request, signal),
        raiseError: false,
        onRunCreated(created) {
          run_id = created.run_id ?? "";
        },
      });
      // The SDK tries again for a while when the signal aborts with a reason of its own.
      return { result: await waitUnlessAborted(result, signal), run: { run_id, thread_id } };
    },
    /**
     * Creates a run and resolves with its ids and frames once these ids are known: for a stateless run with the first
     * frame, when it starts. Ids that no response names are empty texts.
     */
    async stream(thread_id, request, signal) {
      const { promise: created, resolve } = Promise.withResolvers<Partial<RunRef>>();
      const payload = { ...toPayload(request, signal), onRunCreated: resolve };
      const generator = runs.stream(thread_id, request.assistant_id, payload);
      const first = generator.next();
      // The first frame names the thread of a stateless run. It comes when the run starts.
      const announced = first.then(({ value }) => (isObject(value?.data) ? (value.data as Partial<RunRef>) : {}));
      const ids = await (thread_id === null ? announced : Promise.race([created, announced]));
      return {
        run: { run_id: ids.run_id ?? "", thread_id: thread_id ?? ids.thread_id ?? "" },
        frames: readFrames(first, generator),
      };
    },
    /**
     * Resolves with the status of a run and the reason of its cancellation, if any. Null for a missing run and for an
     * empty id.
     */
    async findEnd({ thread_id, run_id }, signal) {
      // A proxy has removed the header that names the run.
      if (run_id === "") return null;
      const run = await runs.get(thread_id, run_id, { signal }).catch(nullIfNotFound);
      return run && { status: run.status, cancel_reason: run.cancel_reason ?? null };
    },
    /** Resolves with the newest state that the run has stored; null if there is none or the thread is missing. */
    async findState({ thread_id, run_id }, signal) {
      const query = { limit: 1, metadata: { run_id }, signal };
      const [state] = (await threads.getHistory(thread_id, query).catch(nullIfNotFound)) ?? [];
      return state ? toReceivedState(state) : null;
    },
    readState: async (thread_id) => toReceivedState(await threads.getState(thread_id)),
  };
}

/**
 * Yields the frames of the SDK, `first` and then those of the generator, with their ids as numbers or null. Ends the
 * generator when the reader stops.
 */
async function* readFrames(
  first: Promise<IteratorResult<SdkFrame>>,
  generator: AsyncGenerator<SdkFrame>,
): AsyncGenerator<ReceivedFrame, void, undefined> {
  try {
    for (let next = await first; !next.done; next = await generator.next()) {
      const { id, event, data } = next.value;
      yield { id: id === undefined ? null : Number(id), event, data };
    }
  } finally {
    await generator.return(undefined);
  }
}
