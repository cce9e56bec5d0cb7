/** Agents for the client and browser tests: plain functions and LangGraph graphs, no network and no chance. */
import type { CallbackManagerForLLMRun } from "@langchain/core/callbacks/manager";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage, AIMessageChunk, type BaseMessage, ToolMessage } from "@langchain/core/messages";
import { ChatGenerationChunk, type ChatResult } from "@langchain/core/outputs";
import {
  Annotation,
  END,
  interrupt,
  type LangGraphRunnableConfig,
  MessagesAnnotation,
  START,
  StateGraph,
} from "@langchain/langgraph";
import { langgraph } from "../../adapters/langgraph/mod.ts";
import { type AgentFunction, combine, type Executor, fromFunctions, type JsonObject } from "../../lib/mod.ts";

/** Gates at which agents wait until the test opens them. A gate that was opened stays open. */
export interface Gates {
  /** Called by agents: resolves once the gate is open. Rejects when the run of the agent is stopped. */
  pass(name: string, signal?: AbortSignal): Promise<void>;
  /** Called by tests: resolves with the reason why the run of the agent at the gate was stopped. */
  stopped(name: string): Promise<unknown>;
  /** Called by tests: resolves once an agent has come to the gate. */
  reached(name: string): Promise<void>;
  open(...names: string[]): void;
}

interface Gate {
  readonly here: PromiseWithResolvers<void>;
  readonly opened: PromiseWithResolvers<void>;
  readonly stopped: PromiseWithResolvers<unknown>;
}

export function createGates(): Gates {
  const gates = new Map<string, Gate>();
  const gate = (name: string): Gate => {
    const gateState = gates.get(name) ?? {
      here: Promise.withResolvers<void>(),
      opened: Promise.withResolvers<void>(),
      stopped: Promise.withResolvers<unknown>(),
    };
    gates.set(name, gateState);
    return gateState;
  };
  return {
    pass(name, signal) {
      const { here, opened, stopped } = gate(name);
      here.resolve();
      return new Promise((resolve, reject) => {
        opened.promise.then(resolve);
        signal?.addEventListener("abort", () => {
          stopped.resolve(signal.reason);
          reject(new Error(`The run was stopped at ${name}`));
        });
      });
    },
    stopped: (name) => gate(name).stopped.promise,
    reached: (name) => gate(name).here.promise,
    open(...names) {
      for (const name of names) gate(name).opened.resolve();
    },
  };
}

interface Reply {
  readonly text: string;
  readonly call?: { readonly name: string; readonly args: JsonObject; readonly id: string };
}

/** A chat model that streams what `reply` makes of the conversation, word by word. */
export class FakeChatModel extends BaseChatModel {
  readonly #reply: (messages: readonly BaseMessage[]) => Reply;
  readonly #onToken: (token: number, signal?: AbortSignal) => Promise<void>;

  constructor(
    reply: (messages: readonly BaseMessage[]) => Reply,
    onToken = async (_token: number, _signal?: AbortSignal): Promise<void> => {},
  ) {
    super({});
    this.#reply = reply;
    this.#onToken = onToken;
  }

  _llmType(): string {
    return "fake";
  }

  async _generate(messages: BaseMessage[]): Promise<ChatResult> {
    const { text, call } = this.#reply(messages);
    return { generations: [{ text, message: new AIMessage({ content: text, tool_calls: call ? [call] : [] }) }] };
  }

  override async *_streamResponseChunks(
    messages: BaseMessage[],
    options: this["ParsedCallOptions"],
    runManager?: CallbackManagerForLLMRun,
  ): AsyncGenerator<ChatGenerationChunk> {
    const { text, call } = this.#reply(messages);
    for (const [at, word] of (text.match(/\S+\s*/g) ?? []).entries()) {
      const chunk = new ChatGenerationChunk({ text: word, message: new AIMessageChunk({ content: word }) });
      yield chunk;
      await runManager?.handleLLMNewToken(word, undefined, undefined, undefined, undefined, { chunk });
      await this.#onToken(at + 1, options.signal);
    }
    if (!call) return;
    const pieces = { name: call.name, id: call.id, args: JSON.stringify(call.args), index: 0 };
    const chunk = new ChatGenerationChunk({
      text: "",
      message: new AIMessageChunk({ content: "", tool_call_chunks: [{ ...pieces, type: "tool_call_chunk" }] }),
    });
    yield chunk;
    await runManager?.handleLLMNewToken("", undefined, undefined, undefined, undefined, { chunk });
  }
}

const getContent = (message: BaseMessage | undefined): string =>
  typeof message?.content === "string" ? message.content : "";
const echo = (messages: readonly BaseMessage[]): Reply => ({ text: `You said: ${getContent(messages.at(-1))}` });

/** Creates a tool call for a seat, or after the response of the tool a text with its result. */
function booking(messages: readonly BaseMessage[]): Reply {
  const last = messages.at(-1);
  return last?.getType() === "tool"
    ? { text: `Done: ${getContent(last)}` }
    : { text: "One moment.", call: { name: "book", args: { seat: "7A" }, id: "call-1" } };
}

/** Creates a team whose researcher has a writer: graphs in graphs, whose model speaks word by word. */
function team(gates: Gates): Parameters<typeof langgraph>[0] {
  const model = new FakeChatModel(
    () => ({ text: "Deep thought here" }),
    (token, signal) => gates.pass(`deep ${token}`, signal),
  );
  const writer = new StateGraph(MessagesAnnotation)
    .addNode("draft", async ({ messages }) => ({ messages: [await model.invoke(messages)] }))
    .addEdge(START, "draft")
    .addEdge("draft", END)
    .compile();
  const research = new StateGraph(MessagesAnnotation)
    .addNode("writer", writer)
    .addNode("check", () => ({ messages: [new AIMessage("Checked")] }))
    .addEdge(START, "writer")
    .addEdge("writer", "check")
    .addEdge("check", END)
    .compile();
  const report = async (_: unknown, { signal }: LangGraphRunnableConfig): Promise<object> => {
    await gates.pass("report", signal);
    return { messages: [new AIMessage("Reported")] };
  };
  return {
    team: new StateGraph(MessagesAnnotation)
      .addNode("research", research)
      .addNode("report", report)
      .addEdge(START, "research")
      .addEdge("research", "report")
      .addEdge("report", END)
      .compile(),
  };
}

function graphs(gates: Gates): Parameters<typeof langgraph>[0] {
  const state = Annotation.Root({ ...MessagesAnnotation.spec, note: Annotation<string> });
  type State = typeof state.State;

  const chat = (model: FakeChatModel) =>
    new StateGraph(MessagesAnnotation)
      .addNode("model", async ({ messages }) => ({ messages: [await model.invoke(messages)] }))
      .addEdge(START, "model")
      .addEdge("model", END)
      .compile();

  const approval = new StateGraph(state)
    .addNode("model", async ({ messages }) => ({ messages: [await new FakeChatModel(booking).invoke(messages)] }))
    .addNode("approve", ({ messages }) => {
      const call = (messages.at(-1) as AIMessage).tool_calls?.[0];
      const answer = interrupt({ question: "Book seat 7A?", tool: call?.name });
      const content = answer === "yes" ? "seat 7A is booked" : "nothing was booked";
      return { messages: [new ToolMessage({ content, tool_call_id: call?.id ?? "" })] };
    })
    .addEdge(START, "model")
    .addConditionalEdges(
      "model",
      ({ messages }: State) => ((messages.at(-1) as AIMessage).tool_calls?.length ? "approve" : END),
      ["approve", END],
    )
    .addEdge("approve", "model")
    .compile();

  const answers = Annotation.Root({ first: Annotation<string>, second: Annotation<string> });
  const questions = new StateGraph(answers)
    .addNode("one", () => ({ first: interrupt("first?") as string }))
    .addNode("two", () => ({ second: interrupt("second?") as string }))
    .addEdge(START, "one")
    .addEdge(START, "two")
    .addEdge("one", END)
    .addEdge("two", END)
    .compile();

  const inside = new StateGraph(answers)
    .addNode("question", () => ({ second: interrupt("inner?") as string }))
    .addEdge(START, "question")
    .addEdge("question", END)
    .compile();
  const outer = new StateGraph(answers)
    .addNode("inside", inside)
    .addEdge(START, "inside")
    .addEdge("inside", END)
    .compile();

  const steps = Annotation.Root({
    steps: Annotation<string[]>({ reducer: (current, update) => [...current, ...update], default: () => [] }),
  });
  const child = new StateGraph(steps)
    .addNode("inner", () => ({ steps: ["inner"] }))
    .addNode("last", () => ({ steps: ["last"] }))
    .addEdge(START, "inner")
    .addEdge("inner", "last")
    .addEdge("last", END)
    .compile();
  const family = new StateGraph(steps)
    .addNode("child", child)
    .addNode("after", () => ({ steps: ["after"] }))
    .addEdge(START, "child")
    .addEdge("child", "after")
    .addEdge("after", END)
    .compile();

  const waiting = new StateGraph(MessagesAnnotation)
    .addNode("wait", async ({ messages }, config: LangGraphRunnableConfig) => {
      const text = getContent(messages.at(-1));
      config.writer?.({ at: text });
      await gates.pass(text, config.signal);
      return { messages: [new AIMessage(`waited for ${text}`)] };
    })
    .addEdge(START, "wait")
    .addEdge("wait", END)
    .compile();

  const halfway = new StateGraph(MessagesAnnotation)
    .addNode("first", ({ messages }) => ({ messages: [new AIMessage(`began ${getContent(messages.at(-1))}`)] }))
    .addNode("second", async ({ messages }, { signal }: LangGraphRunnableConfig) => {
      const text = getContent(messages.at(-2));
      await gates.pass(text, signal);
      return { messages: [new AIMessage(`waited for ${text}`)] };
    })
    .addEdge(START, "first")
    .addEdge("first", "second")
    .addEdge("second", END)
    .compile();

  const failing = new StateGraph(MessagesAnnotation)
    .addNode("fail", () => {
      throw new Error("boom happened");
    })
    .addEdge(START, "fail")
    .addEdge("fail", END)
    .compile();

  const ToldState = Annotation.Root({ told: Annotation<JsonObject> });
  const informed = new StateGraph(ToldState)
    .addNode("tell", (_state, config: LangGraphRunnableConfig) => {
      const { color, size } = config.configurable as JsonObject;
      return { told: { context: config.context as JsonObject, color: color ?? null, size: size ?? null } };
    })
    .addEdge(START, "tell")
    .addEdge("tell", END)
    .compile();

  return {
    chat: chat(new FakeChatModel(echo)),
    "gated-chat": chat(new FakeChatModel(echo, (token, signal) => gates.pass(`token ${token}`, signal))),
    approval,
    questions,
    outer,
    family,
    waiting,
    halfway,
    failing,
    informed,
  };
}

function functions(gates: Gates): Readonly<Record<string, AgentFunction>> {
  const text = (messages: readonly JsonObject[]): string => String(messages.at(-1)?.content);
  return {
    async *agent({ messages }) {
      yield { messages: [{ role: "assistant", content: `You said: ${text(messages)}` }] };
    },
    async *tokens({ messages, emit }) {
      emit({ progress: 1 });
      for (const word of `You said: ${text(messages)}`.match(/\S+\s*/g) ?? []) yield word;
    },
    async *ask(job) {
      if (job.command?.resume === undefined) yield job.interrupt({ question: "ok?" });
      yield { answer: job.command?.resume ?? null };
    },
    async *wait({ messages, emit, signal }) {
      emit({ at: text(messages) });
      await gates.pass(text(messages), signal);
      yield { messages: [{ role: "assistant", content: `waited for ${text(messages)}` }] };
    },
    async *half({ messages, signal }) {
      const question = text(messages);
      yield { messages: [{ role: "assistant", content: `began ${question}` }] };
      await gates.pass(question, signal);
      yield { messages: [{ role: "assistant", content: `waited for ${question}` }] };
    },
    async fail() {
      throw new Error("boom happened");
    },
    tell({ context, config }) {
      const { color, size } = config.configurable;
      return { told: { context, color: color ?? null, size: size ?? null } };
    },
  };
}

/**
 * Creates the executor of the test agents: `agent`, `tokens`, `ask`, `wait`, `half`, `fail`, `tell` are functions, the others LangGraph
 * graphs.
 */
export function testExecutor(gates: Gates): Executor {
  return combine(fromFunctions(functions(gates)), langgraph({ ...graphs(gates), ...team(gates) }));
}
