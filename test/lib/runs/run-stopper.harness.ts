import assert from "node:assert/strict";
import type { FunctionJob, Json, JsonObject, RunCreate, Service } from "../../../lib/mod.ts";

export const ask = (content: string, runFields: Partial<RunCreate> = {}): RunCreate => ({
  assistant_id: "talk",
  input: { messages: [{ role: "user", content }] },
  ...runFields,
});

export const contents = (values: Json): unknown[] =>
  ((values as { messages?: { content: unknown }[] } | null)?.messages ?? []).map((message) => message.content);

/**
 * An agent that answers `re: <content>`; for `slow …` it shows a step first and then waits until it is stopped, and for
 * `deaf …` until the test lets it go on, whatever its signal says.
 */
export function talker(): {
  readonly talk: (job: FunctionJob) => AsyncGenerator<JsonObject>;
  readonly reached: (content: string) => Promise<void>;
  readonly go: () => void;
  readonly reasons: unknown[];
  readonly log: string[];
} {
  const gates = new Map<string, PromiseWithResolvers<void>>();
  const gate = Promise.withResolvers<void>();
  const reasons: unknown[] = [];
  const log: string[] = [];
  const at = (content: string): PromiseWithResolvers<void> => {
    const gateOfContent = gates.get(content) ?? Promise.withResolvers<void>();
    gates.set(content, gateOfContent);
    return gateOfContent;
  };
  return {
    reasons,
    log,
    go: gate.resolve,
    reached: (content) => at(content).promise,
    async *talk({ messages, signal }) {
      const content = (messages.at(-1) as unknown as { content: string }).content;
      log.push(`begin ${content}`);
      if (/^(slow|deaf)/.test(content)) {
        yield {
          messages: [...messages, { role: "assistant", content: `step of ${content}` }],
        } as unknown as JsonObject;
        // A step ends when the next one begins.
        yield { next: content };
        at(content).resolve();
        if (content.startsWith("deaf")) await gate.promise;
        else if (!signal.aborted) await new Promise<void>((done) => signal.addEventListener("abort", () => done()));
        reasons.push(signal.reason);
      }
      log.push(`end ${content}`);
      yield { messages: [...messages, { role: "assistant", content: `re: ${content}` }] } as unknown as JsonObject;
    },
  };
}

export const result = async (service: Service, thread_id: string, run_id: string): Promise<Json> =>
  await (await service.runs.join(thread_id, run_id)).result;

export const notFound = { code: "not_found" };

export async function assertGone(service: Service, thread_id: string, run_id: string): Promise<void> {
  const { runs, threads } = service;
  await assert.rejects(runs.get(thread_id, run_id), notFound);
  await assert.rejects(runs.join(thread_id, run_id), notFound);
  await assert.rejects(runs.joinStream(thread_id, run_id), notFound);
  await assert.rejects(runs.joinStream(null, run_id), notFound);
  await assert.rejects(runs.cancel(thread_id, run_id), notFound);
  await assert.rejects(runs.cancelMany({ thread_id, run_ids: [run_id] }), notFound);
  await assert.rejects(runs.delete(thread_id, run_id), notFound);
  assert.ok(!(await runs.list(thread_id, { limit: 100 })).some((run) => run.run_id === run_id));
  for (const state of await threads.history(thread_id, { limit: 100 })) {
    assert.notEqual(state.metadata?.["run_id"], run_id);
  }
}
