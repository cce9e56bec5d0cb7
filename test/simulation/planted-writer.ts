/** Faults to plant in the queue before the writer of a SQLite file. */
import type { PlantedFault } from "./planted-platform.ts";

export const WRITER: readonly PlantedFault[] = [
  {
    name: "a batch is answered before the thread has committed it",
    file: "adapters/sqlite/writer.ts",
    find: "      thread.commit(batches).then(\n        (committed) => this.#attempt(group, () => this.#settle(group, committed)),",
    replace: `      this.#connection.run({ sql: "begin immediate", args: [] });
      try {
        const results = batches.map((batch) => ({ rows: batch.map((one) => this.#connection.run(one)) }));
        this.#settle(group, { results, commit_ms: 0 });
      } finally {
        this.#connection.run({ sql: "rollback", args: [] });
      }
      thread.commit(batches).then(
        (committed) => this.#attempt(group, () => this.#settle(group, committed)),`,
  },
  {
    name: "a group that failed in the thread is not committed batch by batch",
    file: "adapters/sqlite/writer.ts",
    find: "      for (const batch of group) batch.runs_alone = true;\n      this.#queue.unshift(...group);",
    replace: "      for (const batch of group) batch.resolve(batch.statements.map(() => []));",
  },
  {
    name: "callers of a group get each other's answers",
    file: "adapters/sqlite/writer.ts",
    find: "const result = results[i] as",
    replace: "const result = results[group.length - 1 - i] as",
  },
];
