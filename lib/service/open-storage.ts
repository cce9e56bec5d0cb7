/** Opens the storage of a service: its environment, its health, the database's clock, and the migration. */
import { type Clock, startClock } from "../engine/clock.ts";
import { type StorageHealth, watchStorageHealth } from "../engine/health.ts";
import { type Environment, guardedLog, systemEnvironment } from "../environment.ts";
import type { ServiceOptions } from "../options.ts";
import { type Bus, createBus, withBus } from "../storage/bus.ts";
import type { Storage } from "../storage/mod.ts";

export interface OpenStorage {
  readonly storage: Storage;
  readonly bus: Bus;
  /** The host's environment, with the database's clock and the log of the storage health. */
  readonly environment: Environment;
  readonly health: StorageHealth;
  stop(): void;
}

/** `cleanups` gets what must be stopped if the service cannot be created. */
export async function openStorage(options: ServiceOptions, cleanups: (() => void)[]): Promise<OpenStorage> {
  const { now } = options.environment ?? {};
  const given: Environment = {
    ...systemEnvironment(),
    ...(now ? { monotonic: now } : {}),
    ...options.environment,
  };
  const { signals } = options.storage;
  const bus = createBus(signals, signals ? given.uuid() : "", given);
  const storage = withBus(options.storage, bus);
  const local: Environment = { ...given, log: guardedLog((record) => given.log(record)) };
  const health = watchStorageHealth({
    environment: local,
    probe: () => storage.probe(local.now()),
    onRecovered: bus.checkAll,
  });
  cleanups.push(health.stop);
  // The process's own clock, until the database's time is known.
  let clock: Clock = { now: local.now, stop() {} };
  const environment: Environment = { ...local, now: storage.now ? () => clock.now() : local.now, log: health.log };
  await storage.migrate();
  if (storage.now) {
    const databaseTime = (): Promise<number> => (storage.now as () => Promise<number>)();
    clock = await startClock({ environment: { ...local, log: health.log }, now: databaseTime });
    cleanups.push(clock.stop);
  }
  return {
    storage,
    bus,
    environment,
    health,
    stop() {
      health.stop();
      clock.stop();
    },
  };
}
