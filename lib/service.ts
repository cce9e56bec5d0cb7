/** The service: wires nouns, worker and storage together. */
import type { Ambient } from "./ambient.ts";
import type { Assistants } from "./assistants.ts";
import type { Executor } from "./executor.ts";
import type { Runs } from "./runs.ts";
import type { Storage } from "./storage.ts";
import type { Threads } from "./threads.ts";

/** Every option has the same name in the configuration file of the stand-alone server. */
export interface ServiceOptions {
  readonly storage: Storage;
  readonly executor: Executor;
  readonly deployment?: {
    /** Default `default`. Services of one name on one storage share its work. */
    readonly name?: string;
  };
  readonly worker?: {
    /** Runs executed at once in this process. Default 10; 0 executes none here. */
    readonly concurrency?: number;
    /** How long a claim lasts without renewal. Default 10,000. */
    readonly lease_ms?: number;
  };
  readonly http?: {
    readonly cors?: {
      /** Origins that browsers may call from; `*` for any. Default `["*"]`. */
      readonly allow_origins?: readonly string[];
    };
  };
  /** Clock, timers, randomness and log; for tests. */
  readonly ambient?: Partial<Ambient>;
}

/** What `GET /info` and `GET /ok` tell. */
export interface ServiceInfo {
  readonly version: string;
  readonly api_version: string;
  readonly flags: Readonly<Record<string, boolean>>;
}

export interface Service {
  readonly assistants: Assistants;
  readonly threads: Threads;
  readonly runs: Runs;
  /** The options as given. */
  readonly options: ServiceOptions;
  readonly ambient: Ambient;
  info(): ServiceInfo;
  /** False when the worker can execute nothing any more. */
  healthy(): boolean;
  /** Takes no more runs, lets those that execute end for `grace_ms` (default 10,000), puts the rest back, and closes the storage it opened. */
  stop(grace_ms?: number): Promise<void>;
}
