/** What an agent runtime implements. */
export * from "./contract.ts";
export { recordStates } from "./recorded-states.ts";
