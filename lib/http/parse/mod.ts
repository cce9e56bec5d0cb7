/** Validates bodies, queries, ids and headers of the deployment routes. Every error names its field. */
export * from "./assistants.ts";
export * from "./crons.ts";
export * from "./headers.ts";
export type { Fields } from "./pieces.ts";
export * from "./protocol.ts";
export * from "./read.ts";
export * from "./runs.ts";
export * from "./service.ts";
export * from "./threads.ts";
