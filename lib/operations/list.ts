/** What the files of this folder share: their options, pages, cursors and times. */

import type { Assistants } from "../assistants/mod.ts";
import type { CronCounters } from "../crons/mod.ts";
import type { WorkerCounters } from "../engine/worker.ts";
import type { Environment } from "../environment.ts";
import { ServiceError } from "../errors.ts";
import type { Feedback } from "../feedback/mod.ts";
import type { ServiceOptions } from "../options.ts";
import { parseRfc3339 } from "../rfc3339.ts";
import type { RunDirectory } from "../runs/mod.ts";
import type { DeploymentRow } from "../storage/identity.ts";
import type { ListPosition, Scope, Storage } from "../storage/mod.ts";
import type { ThreadDirectory } from "../threads/mod.ts";
import type { Deliveries, DeliveryCounters } from "../webhooks/deliver.ts";

/** What the service knows about itself. */
export interface ServerFacts {
  readonly version: string;
  readonly api_version: string;
  readonly langgraph_js_version?: string;
  readonly ready: { readonly ok: boolean; readonly detail?: string };
  readonly healthy: boolean;
  readonly database_ok: boolean;
  readonly metrics: {
    readonly uptime_seconds: number;
    readonly draining: boolean;
    readonly standby: boolean;
    readonly runs: { readonly pending: number; readonly scheduled: number; readonly running: number };
    readonly oldest_pending_seconds: number;
    readonly worker: Omit<WorkerCounters, "frames_shown" | "frames_stored">;
    readonly webhooks: DeliveryCounters;
    readonly crons: CronCounters;
  };
}

export interface OperationOptions {
  readonly storage: Storage;
  readonly scope: Scope;
  readonly environment: Environment;
  readonly options: ServiceOptions;
  readonly deployment: Pick<DeploymentRow, "workspace_id">;
  readonly assistants: Pick<Assistants, "get">;
  readonly threads: Pick<ThreadDirectory, "current" | "firstMessage" | "paced">;
  readonly runs: RunDirectory;
  readonly feedback: Pick<Feedback, "tokenUrl">;
  readonly deliveries: Pick<Deliveries, "redeliver">;
  facts(): Promise<ServerFacts>;
}

/** One page of a list. `next`: the cursor of the following page; null at the end. A page may be short, or empty, before the end. */
export interface Listing<Item> {
  readonly items: readonly Item[];
  readonly next: string | null;
}

/** Which page of a list. */
export interface Cursor {
  readonly limit?: number;
  /** The `next` of the page before. */
  readonly cursor?: string;
}

const NOT_OURS = "cursor: must be the `next` of the page before";

/** Errors: invalid. */
export function positionOf(cursor: string | undefined): { readonly after?: ListPosition } {
  if (cursor === undefined) return {};
  const [, time, id] = /^(-?\d{1,15})_([\w-]{1,64})$/.exec(cursor) ?? [];
  if (time === undefined || id === undefined) throw new ServiceError("invalid", NOT_OURS);
  return { after: { created_at: Number(time), id } };
}

export const cursorOf = (place: ListPosition | null): string | null => place && `${place.created_at}_${place.id}`;

/** Errors: invalid. */
export function offsetOf(cursor: string | undefined): number {
  if (cursor === undefined) return 0;
  if (!/^o\d{1,12}$/.test(cursor)) throw new ServiceError("invalid", NOT_OURS);
  return Number(cursor.slice(1));
}

/** A time in RFC 3339 as milliseconds. Errors: invalid. */
export function timeOf(name: string, text: string): number {
  const time = parseRfc3339(text);
  if (time === null) throw new ServiceError("invalid", `${name}: must be a date or time in RFC 3339`);
  return time;
}
