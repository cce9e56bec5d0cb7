/** Guards of streams whose threads do not change. */
import type { Environment } from "../../lib/environment.ts";
import type { EventBus } from "../../lib/storage/event-bus.ts";
import { createStreamGuards, type StreamGuards } from "../../lib/streams/stream-guard.ts";

export const createIdleGuards = (environment: Pick<Environment, "now" | "timer">): StreamGuards =>
  createStreamGuards({
    storage: { getThread: async () => null },
    bus: { subscribe: () => () => {} } as unknown as EventBus,
    environment,
  });
