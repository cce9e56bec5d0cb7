/** Clients that submit feedback with the tokens of runs. */
import { readFeedbackKeys } from "../../../lib/feedback/feature.ts";
import { isActive } from "../oracle/notes.ts";
import type { Caller, Submitted } from "./caller.ts";

export async function submitFeedback(caller: Caller): Promise<void> {
  const { world, dice } = caller;
  const knownRun = caller.pickKnownRun();
  if (!knownRun) return;
  const { run, request } = knownRun;
  if (readFeedbackKeys(request.feedback_keys).length !== run.tokens.length) {
    world.violation("I10", `${run.tag} has ${run.tokens.length} tokens, it asked for ${request.feedback_keys}`);
  }
  if (run.tokens.length === 0) return;
  const [key, token_id] = dice.pick(run.tokens);
  const comment = `${caller.name}-${caller.submitted.length}`;
  const submitted: Submitted = { run, token_id, key, comment, ids: [], unknown: false };
  caller.submitted.push(submitted);
  const keyed = dice.chance(0.5);
  const idempotency = { route: `/feedback/${token_id}`, key: comment, body_hash: comment };
  const what = `feedback ${comment} on ${run.tag}`;
  world.note(`${caller.name} ${what}`);
  for (let times = keyed ? dice.between(1, 2) : 1; times > 0; times--) {
    const alive = isActive(run);
    const sentAt = world.scheduler.now;
    let refused = false;
    const id = await caller.ask(
      what,
      async ({ feedback }) => {
        const token = await feedback.token(token_id);
        const content = { score: 1, value: null, comment, correction: null, metadata: null, from: "body" } as const;
        return await feedback.submit(token, content, keyed ? idempotency : undefined);
      },
      keyed,
      (error) => {
        submitted.unknown ||= error === "unknown";
        refused ||= error === "refused";
      },
    );
    if (id !== undefined) submitted.ids.push(id);
    const { ended_at } = run.state;
    const expired = ended_at !== null && ended_at + world.plan.token_ttl_ms <= world.scheduler.now;
    if (refused && alive && isActive(run)) world.violation("I10", `${what} was refused: it is ${run.state.status}`);
    if (refused && run.fate === "present" && !expired) world.violation("I10", `${what} was refused, its token lives`);
    if (id === undefined) continue;
    world.note(`${what} is taken`);
    if (ended_at !== null && ended_at + world.plan.token_ttl_ms <= sentAt && !keyed) {
      world.violation(
        "I10",
        `${what} was taken, its token died ${sentAt - ended_at - world.plan.token_ttl_ms} ms before`,
      );
    }
  }
  if (new Set(submitted.ids).size > 1) world.violation("I10", `${what} made ${submitted.ids.join(" and ")}`);
}
