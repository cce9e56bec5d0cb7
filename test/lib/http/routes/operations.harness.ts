import assert from "node:assert/strict";
import { type TestService, type TestServiceOptions, testService } from "../../../suite/kit.ts";

// biome-ignore lint/suspicious/noExplicitAny: answers are read by their members
export type Answer = any;

export interface Kit extends TestService {
  /** Returns the response of a request, which must have this status. */
  ask(method: string, path: string, body?: unknown, status?: number, headers?: HeadersInit): Promise<Answer>;
}

export async function kit(options: TestServiceOptions = {}): Promise<Kit> {
  const it = await testService({
    agents: {
      async *agent({ input, config, interrupt, spend }) {
        const behaviour = input as { fail?: boolean; ask?: boolean } | null;
        if (behaviour?.fail) throw new TypeError("No refunds");
        spend({ tokens_in: 3, tokens_out: 4, cost_usd: 0.5 });
        if (behaviour?.ask) yield interrupt({ action: "refund", amount: 30 });
        yield { key: config.configurable?.openai_api_key ?? null };
      },
    },
    public_base_url: "https://agents.example",
    ...options,
  } as TestServiceOptions);
  return {
    ...it,
    async ask(method, path, body, status = 200, headers = {}) {
      const init = { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) };
      const response = await it.fetch(`http://greenroom${path}`, init);
      const text = await response.text();
      assert.equal(response.status, status, `${method} ${path}: ${text}`);
      return text === "" ? null : JSON.parse(text);
    },
    [Symbol.asyncDispose]: () => it[Symbol.asyncDispose](),
  };
}

/** Creates a finished run on a new thread. */
export async function ran(
  it: Kit,
  input: unknown,
  runFields: object = {},
  metadata: object = {},
): Promise<[thread: string, run: string]> {
  const { thread_id } = await it.ask("POST", "/threads", { metadata });
  const { run_id } = await it.ask("POST", `/threads/${thread_id}/runs`, { assistant_id: "agent", input, ...runFields });
  await it.ask("GET", `/threads/${thread_id}/runs/${run_id}/join`);
  return [thread_id, run_id];
}

export const readRunIds = (listing: Answer): string[] => listing.items.map(({ run_id }: Answer) => run_id);

/** Reads the only finding of a 422 response. */
export const finding = async (it: Kit, path: string): Promise<unknown> => {
  const { detail } = await it.ask("GET", path, undefined, 422);
  assert.equal(detail.length, 1);
  return detail[0];
};
