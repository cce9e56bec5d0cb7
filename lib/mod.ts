/**
 * Greenroom: an embeddable agent deployment service. Assistants, threads and runs behind one `Request → Response` handler
 * (`greenroom/server`), or called in process.
 * @module
 */
export { createAccounts } from "./auth/accounts.ts";
export { defineAuth } from "./auth/custom.ts";
export { staticIdentity } from "./auth/static-keys.ts";
export { ConfigError, InputError, LeaseLost, ServiceError } from "./errors.ts";
export { combine } from "./executor/contract.ts";
export { agent, fromFunctions } from "./functions/mod.ts";
export { RunFailed } from "./handles/run-failed.ts";
export { validateOptions } from "./options.ts";
export { createService, VERSION } from "./service.ts";
export type * from "./types.ts";
