/**
 * The interfaces that an agent runtime implements.
 * @module
 */
export * from "./contract.ts";
export { recordStates } from "./state-recorder.ts";
