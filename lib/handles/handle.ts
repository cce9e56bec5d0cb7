/** The calls of one agent over the operations of a server. */
import type { Wire } from "../executor/agent-types.ts";
import type { StreamMode } from "../executor/contract.ts";
import type { Json } from "../json.ts";
import { type ParsedFrame, parseFrame } from "./frames.ts";
import { readOutcome, toOpenInterrupts } from "./outcome.ts";
import { RunFailed } from "./run-failed.ts";
import type { ReceivedFrame, RunRequest, RunTransport } from "./transport.ts";
import type { AgentHandle, CallSettings, Outcome, RunFrames, RunRef, StartedRun } from "./types.ts";

/** The options of a call without the types of its agent. */
interface UntypedOptions extends CallSettings {
  readonly context?: object;
  readonly stream_mode?: StreamMode | readonly StreamMode[];
  readonly stream_subgraphs?: boolean;
}

/** A call with the thread on which it creates its run. */
interface Call {
  readonly thread_id: string | null;
  readonly request: RunRequest;
  readonly signal: AbortSignal | undefined;
}

/** The result of a run that was deleted, also by a rollback. */
const DELETED_RUN_RESULT = { __error__: { error: "RunDeleted", message: "The run was deleted" } };

type Content = Pick<RunRequest, "input" | "command">;

/** Returns the values of a run. Throws `RunFailed` unless it succeeded. */
function requireSuccess(outcome: Outcome<Wire>): unknown {
  if (outcome.status !== "success") throw new RunFailed<Wire>(outcome);
  return outcome.values;
}

/** Returns the same promise, which its user may ignore: its rejection is then no unhandled one. */
function ignoreRejection<Value>(promise: Promise<Value>): Promise<Value> {
  promise.catch(() => {});
  return promise;
}

/**
 * Creates the calls of one agent. Over HTTP and in process they differ in the transport alone.
 */
export function createAgentHandle<Types extends Wire>(transport: RunTransport, name: string): AgentHandle<Types> {
  /**
   * Creates the run of a call and returns the result of `send`. Without `thread_id` it first creates a thread, which it deletes
   * again if the run is refused; null means a stateless run. `options` may name another assistant than the agent's.
   */
  async function create<Created>(
    content: Content,
    options: UntypedOptions,
    send: (call: Call) => Promise<Created>,
  ): Promise<Created> {
    const { thread_id, assistant_id = name, signal, ...settings } = options;
    const request = { ...settings, ...content, assistant_id };
    if (thread_id !== undefined) return await send({ thread_id, request, signal });
    const newThread = await transport.createThread(name, signal);
    try {
      return await send({ thread_id: newThread, request, signal });
    } catch (error) {
      if (transport.isRefusal(error)) await transport.deleteThread(newThread).catch(() => {});
      throw error;
    }
  }

  /**
   * Waits for the end of a run that was created before, and returns its outcome, also for a deleted run. Rejects when the
   * signal aborts; the run continues.
   */
  async function join(run: RunRef, { thread_id, signal }: UntypedOptions): Promise<Outcome<Wire>> {
    const result = (await transport.join(run, signal)) ?? DELETED_RUN_RESULT;
    return await readOutcome(transport, run, { result, isStateless: thread_id === null }, signal);
  }

  /**
   * Creates a run and returns its outcome when it has ended or waits for an answer; a failed run does not reject. Rejects if
   * the run is refused or the signal aborts.
   */
  async function wait(content: Content, options: UntypedOptions): Promise<Outcome<Wire>> {
    const { signal } = options;
    const { run, result } = await create(content, options, (call) =>
      transport.wait(call.thread_id, call.request, signal),
    );
    const isStateless = options.thread_id === null;
    return await readOutcome(transport, run, { result, isStateless }, signal);
  }

  /** Creates a run and resolves with its ids at once. `outcome()` waits for its end. */
  async function start(input: Json, options: UntypedOptions = {}): Promise<StartedRun<Wire>> {
    const { run_id, thread_id } = await create({ input }, options, (call) =>
      transport.create(call.thread_id, call.request, call.signal),
    );
    return { run_id, thread_id, outcome: () => join({ run_id, thread_id }, options) };
  }

  /**
   * Creates a run and returns its frames, those of mode `values` by default. The run starts at once, also if nobody reads them.
   * If it is refused, the first read rejects.
   */
  function stream(input: Json, options: UntypedOptions = {}): RunFrames<Wire> {
    const opened = create({ input }, { stream_mode: "values", ...options }, (call) =>
      transport.stream(call.thread_id, call.request, call.signal),
    );
    return new OpenFrames(opened, (run) => join(run, options)) as AsyncIterable<unknown> as RunFrames<Wire>;
  }

  const handle = {
    run: async (input: Json, options: UntypedOptions = {}) => requireSuccess(await wait({ input }, options)),
    stream,
    start,
    resume: (thread_id: string, answer: Json = null, options: UntypedOptions = {}) =>
      wait({ command: { resume: answer } }, { ...options, thread_id }),
    /** Returns the current state of the thread with its open interrupts. Rejects for an unknown thread. */
    async state(thread_id: string) {
      const { values, next, interrupts } = await transport.readState(thread_id);
      return { values, next, interrupts: toOpenInterrupts(interrupts) };
    },
  };
  return handle as unknown as AgentHandle<Types>;
}

type OpenedStream = Awaited<ReturnType<RunTransport["stream"]>>;

/** The frames of a stream that is being opened. */
class OpenFrames implements AsyncIterable<ParsedFrame> {
  readonly run: Promise<RunRef>;
  readonly #opened: Promise<OpenedStream>;
  readonly #join: (run: RunRef) => Promise<Outcome<Wire>>;
  #outcome: Promise<Outcome<Wire>> | undefined;

  constructor(opened: Promise<OpenedStream>, join: (run: RunRef) => Promise<Outcome<Wire>>) {
    this.#opened = opened;
    this.#join = join;
    this.run = ignoreRejection(opened.then(({ run }) => run));
  }

  get outcome(): Promise<Outcome<Wire>> {
    this.#outcome ??= ignoreRejection(this.run.then(this.#join));
    return this.#outcome;
  }

  /**
   * Yields the frames that have content. After the last one it throws RunFailed, unless the run succeeded or waits for an
   * answer.
   */
  async *[Symbol.asyncIterator](): AsyncIterator<ParsedFrame> {
    const { frames } = await this.#opened;
    let last: ReceivedFrame | undefined;
    for await (const frame of frames) {
      last = frame;
      const parsed = parseFrame(frame);
      if (parsed) yield parsed;
    }
    if (last?.event === "end" && (last.data as { readonly status?: Json }).status === "success") return;
    const outcome = await this.outcome;
    if (outcome.status !== "success" && outcome.status !== "waiting") throw new RunFailed<Wire>(outcome);
  }
}
