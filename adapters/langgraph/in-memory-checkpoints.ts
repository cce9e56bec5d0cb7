/** Checkpoints in memory, for runs that store none. Values are kept by reference, not serialized. */
import type {
  CheckpointHandle,
  NewCheckpoint,
  Payload,
  StoredCheckpoint,
  StoredWrite,
} from "../../lib/executor/contract.ts";
import { contains } from "../../lib/json.ts";
import type { Values } from "./saver.ts";

/** Values by reference. Only `inMemoryCheckpoints` can store them. */
export const inMemoryValues: Values = {
  write: (value) => ({ type: "held", data: value as Payload["data"] }),
  read: ({ data }) => data,
};

/** The checkpoints of one thread, initially empty. */
export function inMemoryCheckpoints(): CheckpointHandle {
  const checkpoints: NewCheckpoint[] = [];
  const writes = new Map<string, Map<string, StoredWrite>>();
  const key = (...parts: readonly (string | number)[]): string => JSON.stringify(parts);

  const stored = (checkpoint: NewCheckpoint): StoredCheckpoint => {
    const { ns, checkpoint_id, versions } = checkpoint;
    const values = checkpoints.filter((other) => other.ns === ns).flatMap((other) => other.values);
    const pending = [...(writes.get(key(ns, checkpoint_id))?.values() ?? [])];
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
      const found = checkpoints.findLast(
        (one) => one.ns === ns && (checkpoint_id === undefined || one.checkpoint_id === checkpoint_id),
      );
      return found ? stored(found) : null;
    },
    async *list({ ns, before, limit, metadata = {} }) {
      const found = checkpoints.filter(
        (one) =>
          (ns === undefined || one.ns === ns) &&
          (before === undefined || one.checkpoint_id < before) &&
          contains(one.metadata, metadata),
      );
      for (const one of found.toReversed().slice(0, limit)) yield stored(one);
    },
    async put(checkpoint) {
      checkpoints.push(checkpoint);
    },
    async putWrites({ ns, checkpoint_id }, task_id, added) {
      const at = key(ns, checkpoint_id);
      const pending = writes.get(at) ?? new Map<string, StoredWrite>();
      writes.set(at, pending);
      for (const write of added) pending.set(key(task_id, write.idx), { ...write, task_id });
    },
  };
}

function byTaskAndIndex(first: StoredWrite, second: StoredWrite): number {
  if (first.task_id === second.task_id) return first.idx - second.idx;
  return first.task_id < second.task_id ? -1 : 1;
}
