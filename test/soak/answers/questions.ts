/** The questions of the answers soak, which its agents ask and its clients answer. */
import { join } from "node:path";
import type { Json } from "../../../lib/mod.ts";

/** The exports of agents.ts. */
export const AGENTS = ["one_node", "inside", "loop", "plain", "durable"] as const;

/** The number of questions of a thread. */
export const QUESTIONS = 4;

/** A question of a thread consumed an answer. A repeated attempt notes it again. */
export interface Consumed {
  readonly thread_id: string;
  readonly question: number;
  readonly answer: Json;
}

/**
 * While this file is missing, no agent goes on behind the answer. Each answer has a gate of its own, because a question may be tried
 * again whose first answers were lost.
 */
export const getGatePath = (folder: string, answer: string): string =>
  join(folder, `gate-${answer.replaceAll(" ", "-")}`);
