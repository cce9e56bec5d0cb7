/**
 * What a storage implements, and the rows that it stores: for those who write one of their own.
 * @module
 */
export type { IsoTime, Json, JsonObject, Uuid } from "../json.ts";
export type { ListPosition } from "./cursor.ts";
export type { PushKey } from "./deliveries.ts";
export type * from "./identity.ts";
export type * from "./mod.ts";
export type { Condition, Filter, Scalar, Visibility } from "./visibility.ts";
