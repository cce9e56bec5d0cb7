/** Watches the health of the storage, by its errors and by probes, and the health of claiming. */
import type { Environment } from "../environment.ts";
import { isOutage, ServiceError } from "../errors.ts";

interface StorageHealthOptions {
  readonly environment: Environment;
  /** Rejects with an outage while the storage cannot be reached. */
  probe(): Promise<unknown>;
  /** Checks the files of the storage, if it has any. Rejects when they are damaged. */
  check?(): Promise<unknown>;
  onRecovered(): void;
}

export interface StorageHealth {
  /** The log for all users of the storage. During an outage it writes only the first record of each message. */
  readonly log: Environment["log"];
  /** Returns the reason of an outage, for callers; null without one. */
  problem(): string | null;
  /**
   * Sets the callbacks for lost files: the first is called once in each outage in which the files of the storage are lost, the
   * second after that outage.
   */
  onLost(onFilesLost: (message: string) => void, onFilesRecovered: () => void): void;
  /** Stops the probes and the file checks. From then on no outage starts, and `problem` returns null. */
  stop(): void;
}

const PROBE_INTERVAL_MS = 500;
const CHECK_INTERVAL_MS = 1_000;

/**
 * Watches the storage through its `log`: a record whose error is an outage starts one, with probes until the storage responds.
 * During it each message is logged once. Checks the files regularly. Logs the end of the outage and calls `onRecovered`.
 */
// biome-ignore lint/complexity/noExcessiveLinesPerFunction: its inner functions share state, and each is read alone
export function watchStorageHealth({ environment, probe, check, onRecovered }: StorageHealthOptions): StorageHealth {
  // The messages logged in this outage; empty without an outage.
  const logged = new Set<string>();
  let outageStart = 0;
  let omittedRecords = 0;
  let reason = "";
  let stopped = false;
  let areFilesLost = false;
  let onLoss = (_message: string): void => {};
  let onReturn = (): void => {};
  let cancel = (): void => {};
  let cancelCheck = (): void => {};

  /** Probes the storage. Returns false if it responds, even with another error. Notes damaged files. */
  async function isUnreachable(): Promise<boolean> {
    try {
      await probe();
      return false;
    } catch (error) {
      noteLostFiles(error);
      // Any other error is a response of the storage.
      return isOutage(error);
    }
  }

  /** Calls `onLoss` for the first error that says that the files are damaged or lost, until the next recovery. */
  function noteLostFiles(error: unknown): void {
    if (areFilesLost || !(error instanceof ServiceError && error.reason === "storage_damaged")) return;
    areFilesLost = true;
    reason = error.message;
    onLoss(error.message);
  }

  /** Probes after an interval, again and again until the storage responds, and then ends the outage. */
  function scheduleProbe(): void {
    cancel = environment.timer(PROBE_INTERVAL_MS, async () => {
      const down = await isUnreachable();
      if (stopped) return;
      if (down) scheduleProbe();
      else endOutage();
    });
  }

  /**
   * Ends the outage: logs its duration and the number of omitted records, and calls `onReturn` after lost files, then
   * `onRecovered`.
   */
  function endOutage(): void {
    logged.clear();
    if (areFilesLost) onReturn();
    areFilesLost = false;
    const seconds = Math.round((environment.now() - outageStart) / 1000);
    environment.log({
      level: "info",
      message: "the database can be reached again",
      seconds,
      records_left_out: omittedRecords,
    });
    onRecovered();
  }

  /** Checks the files at each interval, except during an outage, and logs what is wrong. */
  function scheduleFileCheck(checkFiles: () => Promise<unknown>): void {
    cancelCheck = environment.timer(CHECK_INTERVAL_MS, async () => {
      try {
        if (logged.size === 0) await checkFiles();
      } catch (error) {
        log({ level: "error", message: "the files of the database are not as they should be", error });
      }
      if (!stopped) scheduleFileCheck(checkFiles);
    });
  }

  /**
   * Logs the record. During an outage each message is logged once, and the first one schedules probes. Counts what is omitted.
   */
  const log: Environment["log"] = (record) => {
    const { message, error } = record;
    if (logged.has(message) && error !== undefined) {
      omittedRecords++;
      return;
    }
    if (isOutage(error) && !stopped) {
      if (logged.size === 0) {
        outageStart = environment.now();
        omittedRecords = 0;
        reason = (error as Error).message;
        scheduleProbe();
      }
      logged.add(message);
      noteLostFiles(error);
    }
    environment.log(record);
  };

  if (check) scheduleFileCheck(check);
  return {
    log,
    problem: () => (logged.size > 0 ? reason : null),
    onLost(onFilesLost, onFilesRecovered) {
      [onLoss, onReturn] = [onFilesLost, onFilesRecovered];
    },
    stop() {
      stopped = true;
      logged.clear();
      cancel();
      cancelCheck();
    },
  };
}

/** The health of claiming: whether storage calls fail or hang, and whether the timers of the worker run. */
export interface ClaimHealth {
  /**
   * Calls the storage and resolves with its result. Resolves to undefined if the call failed, and logs the error. Notes both for
   * `isFailing` and `isHealthy`.
   */
  call<Result>(request: () => Promise<Result>): Promise<Result | undefined>;
  isFailing(): boolean;
  /** Records that the poll timer has fired. */
  recordPoll(): void;
  /**
   * Returns false if claims have failed or one has had no response for 10 s, or the poll timer has not fired for
   * `longest_poll_ms`. Failures in an outage of the storage do not count.
   */
  isHealthy(longest_poll_ms: number): boolean;
}

const UNHEALTHY_MS = 10_000;

/**
 * Creates the record of how claims go. `call` runs a claim and returns undefined if it fails, which is logged. The worker is
 * unhealthy if claims fail or hang for long, or none was tried for `longest_poll_ms`; an outage of the storage does not count.
 */
export function createClaimHealth(environment: Environment): ClaimHealth {
  let failingSince: number | null = null;
  // An outage does not count, because a restart of this process would not help.
  let isStorageDown = false;
  let calledAt: number | null = null;
  let polledAt = environment.now();
  return {
    async call(request) {
      calledAt = environment.now();
      try {
        const result = await request();
        failingSince = null;
        isStorageDown = false;
        return result;
      } catch (error) {
        failingSince ??= environment.now();
        isStorageDown ||= isOutage(error);
        environment.log({ level: "error", message: "claiming a run failed", error });
        return undefined;
      } finally {
        calledAt = null;
      }
    },
    isFailing: () => failingSince !== null,
    recordPoll() {
      polledAt = environment.now();
    },
    isHealthy(longest_poll_ms) {
      const now = environment.now();
      const isOld = (since: number | null): boolean => since !== null && now - since >= UNHEALTHY_MS;
      return !((isOld(failingSince) && !isStorageDown) || isOld(calledAt) || now - polledAt > longest_poll_ms);
    },
  };
}
