/** Clients of the event protocol, who speak to a thread at the same time. */
import type { JsonObject } from "../../../lib/json.ts";
import type { CommandResponse } from "../../../lib/protocol/mod.ts";
import type { Script } from "../agent.ts";
import type { Caller, RequestedRun } from "./caller.ts";
import { noteAcknowledged, planRun } from "./create.ts";

/** Sends two messages to a thread, or a message and an answer where it waits for one: every run that succeeds has left its messages. */
export async function talk(caller: Caller): Promise<void> {
  const thread_id = caller.dice.pick(caller.threads);
  const state = await caller.ask("state", (service) => service.threads.state(thread_id), true);
  const interrupt_id = state?.interrupts[0]?.id;
  const answers = interrupt_id !== undefined && caller.dice.chance(0.5);
  const second = answers
    ? command(caller, thread_id, "input.respond", ({ script }) => ({ interrupt_id, response: json(script) }))
    : say(caller, thread_id);
  await Promise.all([say(caller, thread_id), second]);
}

const json = (script: Script): JsonObject => script as unknown as JsonObject;

const say = (caller: Caller, thread_id: string): Promise<void> =>
  command(caller, thread_id, "run.start", ({ script, request: { assistant_id } }) => ({
    ...{ assistant_id, input: json(script), multitask_strategy: "enqueue" },
    // The input is an answer while the thread is interrupted, and dropped if it is at a breakpoint by then.
    context: { script: json(script) },
  }));

async function command(
  caller: Caller,
  thread_id: string,
  method: string,
  createParams: (requestedRun: RequestedRun) => JsonObject,
): Promise<void> {
  const requestedRun = planRun(caller, thread_id, false);
  // A command has neither webhooks nor feedback keys.
  requestedRun.request = { assistant_id: requestedRun.request.assistant_id, multitask_strategy: "enqueue" };
  const what = `${method} ${requestedRun.tag}`;
  caller.world.note(`${caller.name} ${what}`);
  const params = createParams(requestedRun);
  const answer = await caller.ask<CommandResponse>(
    what,
    (service) => service.threads.command(thread_id, { id: 1, method, params }),
    false,
    (error) => {
      if (error === "unknown") requestedRun.unknown = true;
      if (error === "refused") requestedRun.refused = true;
    },
  );
  if (answer?.type === "error") requestedRun.refused = true;
  if (answer?.type === "success") noteAcknowledged(caller, requestedRun, String(answer.result.run_id));
}
