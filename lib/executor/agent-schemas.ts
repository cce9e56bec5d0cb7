/** The schemas that an agent declares. */
import type { Schema } from "./agent-types.ts";

/** The Standard Schemas of an agent. */
export interface AgentSchemas {
  readonly state?: Schema;
  readonly context?: Schema;
  readonly input?: Schema;
  readonly interrupt?: Schema;
  readonly resume?: Schema;
  readonly custom?: Schema;
  /** False to store updates without validating them by `state`. */
  readonly validate_state?: boolean;
}

/** Returns true for a Standard Schema. Those of arktype are functions. */
export function isStandardSchema(value: unknown): value is Schema {
  if (value === null || (typeof value !== "object" && typeof value !== "function")) return false;
  const standard = (value as Partial<Schema>)["~standard"];
  return typeof standard === "object" && standard !== null && typeof standard.validate === "function";
}
