/** Feedback whose calls load with the first of them. */
import { lazyCalls } from "../environment.ts";
import { tokenUrls } from "./links.ts";
import type { FeedbackDirectory, FeedbackOptions } from "./mod.ts";

export function lazyFeedback(options: FeedbackOptions): FeedbackDirectory {
  const calls = lazyCalls<Omit<FeedbackDirectory, "tokenUrl">>(
    {
      mintTokens: true,
      listTokens: true,
      token: true,
      submit: true,
      create: true,
      get: true,
      update: true,
      delete: true,
      list: true,
      stats: true,
      scores: true,
      links: true,
      revokeLink: true,
    },
    async () => (await import("./mod.ts")).createFeedback(options),
  );
  return { ...calls, tokenUrl: tokenUrls(options.base_url) };
}
