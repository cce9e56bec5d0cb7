/** Feedback, whose code loads with the first call. */
import { createLazyModule } from "../environment.ts";
import type { FeedbackDirectory, FeedbackOptions } from "./mod.ts";

export function lazyFeedback(options: FeedbackOptions): FeedbackDirectory {
  return createLazyModule<FeedbackDirectory>(
    {
      ...{ mintTokens: true, listTokens: true, token: true, submit: true },
      ...{ create: true, get: true, update: true, delete: true, list: true, stats: true },
      ...{ scores: true, links: true, revokeLink: true },
    },
    async () => (await import("./mod.ts")).createFeedback(options),
  );
}
