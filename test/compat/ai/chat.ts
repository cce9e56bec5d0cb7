/** Chats of the AI SDK as a page has them, over a handler in this process. */
import { AbstractChat, type ChatState, DefaultChatTransport, type UIMessage } from "ai";
import { AbstractChat as AbstractChat5, DefaultChatTransport as DefaultChatTransport5 } from "ai-5";
import { AbstractChat as AbstractChat6, DefaultChatTransport as DefaultChatTransport6 } from "ai-6";

/** The state of a chat without a framework. */
class PlainState implements ChatState<UIMessage> {
  status: ChatState<UIMessage>["status"] = "ready";
  error: Error | undefined = undefined;
  messages: UIMessage[];
  constructor(messages: UIMessage[]) {
    this.messages = messages;
  }
  pushMessage = (message: UIMessage): void => {
    this.messages = [...this.messages, message];
  };
  popMessage = (): void => {
    this.messages = this.messages.slice(0, -1);
  };
  replaceMessage = (index: number, message: UIMessage): void => {
    this.messages = this.messages.with(index, structuredClone(message));
  };
  snapshot = <Value>(value: Value): Value => structuredClone(value);
}

export type Fetch = (url: string, init?: RequestInit) => Promise<Response>;

/** The members that all three versions of a chat have. */
export interface AnyChat {
  readonly messages: UIMessage[];
  readonly status: string;
  readonly error: Error | undefined;
  sendMessage(
    message?: {
      readonly text: string;
      readonly messageId?: string;
      readonly files?: unknown;
      readonly metadata?: unknown;
    },
    options?: { readonly body?: object },
  ): Promise<void>;
  regenerate(options?: { readonly messageId?: string }): Promise<void>;
  resumeStream(): Promise<void>;
  stop(): Promise<void>;
  addToolApprovalResponse(response: { id: string; approved: boolean; reason?: string }): void | PromiseLike<void>;
}

export interface ChatOptions {
  readonly id: string;
  readonly fetch: Fetch;
  readonly messages?: readonly UIMessage[];
  readonly agent?: string;
  readonly body?: object;
  readonly onData?: (part: unknown) => void;
  readonly sendAutomaticallyWhen?: (options: { messages: UIMessage[] }) => boolean | PromiseLike<boolean>;
}

const VERSIONS = {
  5: [AbstractChat5, DefaultChatTransport5],
  6: [AbstractChat6, DefaultChatTransport6],
  7: [AbstractChat, DefaultChatTransport],
} as const;

/** Creates a chat of one version of `ai`. */
export function openChat({ agent = "agent", messages = [], ...options }: ChatOptions, version: 5 | 6 | 7 = 7): AnyChat {
  // The classes differ in their types only.
  const [Abstract, Transport] = VERSIONS[version] as unknown as (typeof VERSIONS)[7];
  const { fetch, body = {}, ...chatOptions } = options;
  class Chat extends Abstract<UIMessage> {}
  const transport = new Transport<UIMessage>({
    api: `http://localhost/ai/${agent}/chat`,
    fetch: fetch as typeof globalThis.fetch,
    body: { ...(version === 7 ? {} : { ai_sdk: version }), ...body },
  });
  return new Chat({ ...chatOptions, transport, state: new PlainState([...messages]) } as never) as unknown as AnyChat;
}

/** Returns the value after JSON: members that are undefined are absent. */
export const plain = <Value>(value: Value): Value => JSON.parse(JSON.stringify(value)) as Value;

/** Reads the chunks of a response. */
export async function readChunks(
  response: Response,
): Promise<{ readonly type: string; readonly [member: string]: unknown }[]> {
  const text = await response.text();
  return text
    .split("\n")
    .filter((line) => line.startsWith("data: ") && line !== "data: [DONE]")
    .map((line) => JSON.parse(line.slice(6)));
}
