/** Clients that answer the question of a thread, two at a time: one answer is accepted. */
import type { JsonObject } from "../../../lib/json.ts";
import type { Caller } from "./caller.ts";
import { planRun, submit } from "./create.ts";

export async function answer(caller: Caller): Promise<void> {
  const { dice } = caller;
  const thread_id = dice.pick(caller.threads);
  const state = await caller.ask("state", (service) => service.threads.state(thread_id), true);
  const interrupt_id = state?.interrupts[0]?.id;
  if (interrupt_id === undefined) return;
  const both = [1, 2].map(() => {
    const plannedRun = planRun(caller, thread_id);
    const script = plannedRun.script as unknown as JsonObject;
    const { input: _input, context: _context, after_seconds: _after, ...request } = plannedRun.request;
    const resume = dice.chance(0.5) ? { [interrupt_id]: script } : script;
    // The value is dropped if the thread is at a breakpoint by then.
    plannedRun.request = { ...request, command: { resume }, context: { script } };
    return submit(caller, plannedRun, dice.chance(0.5) ? "create" : "stream");
  });
  await Promise.all(both);
}
