/** Creates the feedback resource, whose code loads with the first call. */
import { createLazyModule } from "../environment.ts";
import type { FeedbackOptions, InternalFeedback } from "./mod.ts";

/** Creates the internal resource of feedback, whose code is imported at the first call. */
export function createLazyFeedback(options: FeedbackOptions): InternalFeedback {
  return createLazyModule<InternalFeedback>(
    {
      ...{ mintTokens: true, listTokens: true, token: true, submit: true },
      ...{ create: true, get: true, update: true, delete: true, list: true, stats: true },
      ...{ scores: true, links: true, revokeLink: true },
    },
    async () => (await import("./mod.ts")).createFeedback(options),
  );
}
