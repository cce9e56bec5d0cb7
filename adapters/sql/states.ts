/** Creates the storage operations that change states without a run: state updates, metadata of checkpoints, copies. */
import type { JsonObject } from "../../lib/json.ts";
import type { Scope, StateStorage } from "../../lib/storage/mod.ts";
import type { ThreadKey } from "./channel-values.ts";
import { type Database, readOne, threadLockKey } from "./database.ts";
import { THREAD_COPIED } from "./features.ts";
import { insertIndexEntries } from "./metadata-index.ts";
import { createPruningStorage } from "./pruning.ts";
import { createStateStatements } from "./state-updates.ts";
import { unmarkThread } from "./statements/state-updates.ts";
import {
  COPIED_TABLE_NAMES,
  copyOfFeature,
  copyRows,
  copyStateEntries,
  insertCopy,
  moveHead,
  selectAnyThread,
  selectMetadata,
  selectState,
  setMetadata,
} from "./statements/states.ts";
import { toThread } from "./threads.ts";

/** Reads what a state update compares of a thread; null if the thread does not exist in the scope. */
const readState = (driver: Database, { deployment, filter }: Scope, thread_id: string) =>
  readOne(driver, selectState({ deployment, thread_id }, filter), (row) => row);

/**
 * Returns the operation that stores a state as the head of a thread. If it stores nothing, that returns the reason: `not_found`
 * (or not visible), `busy`, or `stale` if the head is not `expected_head`.
 */
const writeState =
  (driver: Database): StateStorage["writeState"] =>
  // biome-ignore lint/complexity/noExcessiveCognitiveComplexity: one batch and its outcomes, in their order
  async (scope, thread_id, state, now) => {
    const { deployment, filter } = scope;
    const { head, expected_head, graph_id, ends } = state;
    const statements = [
      moveHead(
        { deployment, thread_id, head, expected_head: expected_head, graph_id, ends: ends ? 1 : 0, now },
        filter,
      ),
      ...createStateStatements(deployment, thread_id, state),
    ];
    for (;;) {
      const [moved] = await driver.batch(statements, [threadLockKey(deployment, thread_id)]);
      if (moved?.[0]) return "written";
      const thread = await readState(driver, scope, thread_id);
      if (!thread) return "not_found";
      if (thread.busy) return "busy";
      if (thread.head !== expected_head) return "stale";
      // The obstacle has disappeared: retry.
    }
  };

/**
 * Returns the operation that merges members into the metadata of a checkpoint, where they replace those of the same name. It
 * tries again after a concurrent change, and returns false if the checkpoint does not exist or is not visible.
 */
const annotateCheckpoint =
  (driver: Database): StateStorage["annotateCheckpoint"] =>
  async ({ deployment, filter }, thread_id, { ns, checkpoint_id }, added) => {
    const address = { deployment, thread_id, ns, checkpoint_id };
    for (;;) {
      const [row] = await driver.read(selectMetadata(address, filter));
      if (!row) return false;
      const metadata = JSON.stringify({ ...(JSON.parse(row.metadata) as JsonObject), ...added });
      const [changed] = await driver.batch(
        [setMetadata({ ...address, metadata, expected: row.metadata }, filter)],
        [threadLockKey(deployment, thread_id)],
      );
      if (changed[0]) return true;
    }
  };

/** Returns the member that names a thread in the metadata of its checkpoints. */
const formatThreadMember = (thread_id: string): string => `"thread_id":${JSON.stringify(thread_id)}`;

/**
 * Returns the operation that copies a thread with its states, but not those of active runs. If it copies nothing, it returns
 * `not_found`, `stale` if the revision is not `expected_revision`, or `exists` if the id of the copy is taken.
 */
const copyThread =
  (driver: Database): StateStorage["copyThread"] =>
  async (scope, { from, expected_revision, thread_id, metadata }, now) => {
    const { deployment, filter } = scope;
    const key = { deployment, thread_id };
    const copy = { ...key, from, from_member: formatThreadMember(from), member: formatThreadMember(thread_id), now };
    const insert = insertCopy(
      { ...copy, expected_revision: expected_revision, metadata: JSON.stringify(metadata) },
      filter,
    );
    for (;;) {
      const [inserted] = await driver.batch(
        [
          insert,
          ...COPIED_TABLE_NAMES.map((table) => copyRows({ table }, copy)),
          ...Object.keys(THREAD_COPIED).map((statement) => copyOfFeature({ statement }, copy)),
          copyStateEntries(copy),
          unmarkThread(key),
          ...insertIndexEntries("thread", deployment, thread_id, metadata),
        ],
        [threadLockKey(deployment, from), threadLockKey(deployment, thread_id)],
      );
      if (inserted[0]) return { kind: "copied", thread: toThread({ ...inserted[0], running: null, waiting: 0 }) };
      const source = await readState(driver, scope, from);
      if (!source) return { kind: "not_found" };
      if (source.revision !== expected_revision) return { kind: "stale" };
      if (await exists(driver, key)) return { kind: "exists" };
    }
  };

const exists = async (driver: Database, key: ThreadKey): Promise<boolean> =>
  (await driver.read(selectAnyThread(key))).length > 0;

/** Creates the storage operations that change states without a run. */
export function createStateStorage(driver: Database): StateStorage {
  return {
    /**
     * @statements moveHead · createStateStatements · readState
     * @guards update `head`, and interrupts where nothing follows, where the thread is visible, not busy and `head = seen`;
     *   sets the mark · state rows while marked · remove the mark · value labels. Otherwise a read finds the reason: `busy`,
     *   `stale` or `not_found`.
     */
    writeState: writeState(driver),
    /**
     * @statements selectMetadata · setMetadata
     * @guards read · update where `metadata = seen`. Retries.
     */
    annotateCheckpoint: annotateCheckpoint(driver),
    /**
     * @statements insertCopy · copyRows · copyOfFeature · copyStateEntries · unmarkThread · insertIndexEntries · readState · exists
     * @guards insert the copy from the source where `revision = seen`, marked · copy checkpoints, writes and channel
     *   values while marked, except those of active runs · copy value labels · remove the mark · labels.
     */
    copyThread: copyThread(driver),
    ...createPruningStorage(driver),
  };
}
