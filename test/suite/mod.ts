/**
 * Test helpers for agents, drivers and storage adapters.
 * @module
 */

export type * from "../../adapters/app.ts";
export {
  type TestAccounts,
  type TestClock,
  type TestService,
  type TestServiceOptions,
  type TestToken,
  type TestTrace,
  testAccounts,
  testClock,
  testIds,
  testService,
} from "./kit.ts";
export { type SuiteApi, storageSuite } from "./storage.ts";
export type { NewTrace } from "./traces.ts";
export { type CatcherOptions, type CaughtWebhook, catchWebhooks, type WebhookCatcher } from "./webhook-catcher.ts";
