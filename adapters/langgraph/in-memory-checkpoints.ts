/** Checkpoints in memory, for runs that store none. Holds values by reference, not serialized. */
import type {
  CheckpointHandle,
  NewCheckpoint,
  Payload,
  StoredCheckpoint,
  StoredWrite,
} from "../../lib/executor/contract.ts";
import { contains } from "../../lib/json.ts";
import type { ValueSerializer } from "./saver.ts";

/** Stores values by reference. Only `createInMemoryCheckpoints` accepts them. */
export const inMemoryValues: ValueSerializer = {
  write: (value) => ({ type: "held", data: value as Payload["data"] }),
  read: ({ data }) => data,
};

/**
 * Creates the checkpoints of one thread in memory, initially empty. Lists are newest first; `get` returns null without a match; a
 * write with the task and index of an earlier one replaces it. Nothing is ever deleted.
 */
export function createInMemoryCheckpoints(): CheckpointHandle {
  const checkpoints: NewCheckpoint[] = [];
  const writes = new Map<string, Map<string, StoredWrite>>();
  const formatKey = (...parts: readonly (string | number)[]): string => JSON.stringify(parts);

  /**
   * Returns the checkpoint with the values of its versions, which earlier checkpoints of the namespace may have stored,
   * and its writes, ordered by task id and index.
   */
  const toStoredCheckpoint = (checkpoint: NewCheckpoint): StoredCheckpoint => {
    const { ns, checkpoint_id, versions } = checkpoint;
    const values = checkpoints.filter((candidate) => candidate.ns === ns).flatMap((candidate) => candidate.values);
    const pending = [...(writes.get(formatKey(ns, checkpoint_id))?.values() ?? [])];
    return {
      ...checkpoint,
      run_id: null,
      values: values.filter(({ channel, version }) => versions[channel] === version),
      writes: pending.sort(byTaskAndIndex),
      created_at: 0,
    };
  };

  return {
    async get({ ns, checkpoint_id }) {
      const match = checkpoints.findLast(
        (checkpoint) =>
          checkpoint.ns === ns && (checkpoint_id === undefined || checkpoint.checkpoint_id === checkpoint_id),
      );
      return match ? toStoredCheckpoint(match) : null;
    },
    async *list({ ns, before, limit, metadata = {} }) {
      const matches = checkpoints.filter(
        (checkpoint) =>
          (ns === undefined || checkpoint.ns === ns) &&
          (before === undefined || checkpoint.checkpoint_id < before) &&
          contains(checkpoint.metadata, metadata),
      );
      for (const checkpoint of matches.toReversed().slice(0, limit)) yield toStoredCheckpoint(checkpoint);
    },
    async put(checkpoint) {
      checkpoints.push(checkpoint);
    },
    async putWrites({ ns, checkpoint_id }, task_id, added) {
      const writesKey = formatKey(ns, checkpoint_id);
      const pending = writes.get(writesKey) ?? new Map<string, StoredWrite>();
      writes.set(writesKey, pending);
      for (const write of added) pending.set(formatKey(task_id, write.idx), { ...write, task_id });
    },
  };
}

function byTaskAndIndex(first: StoredWrite, second: StoredWrite): number {
  if (first.task_id === second.task_id) return first.idx - second.idx;
  return first.task_id < second.task_id ? -1 : 1;
}
