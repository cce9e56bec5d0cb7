/** What tests of agents, drivers and storages need.
 * @module
 */
export {
  type TestClock,
  type TestService,
  type TestServiceOptions,
  testClock,
  testIds,
  testService,
} from "./kit.ts";
export { type SuiteApi, storageSuite } from "./storage.ts";
