/** Records the changes of each batch in order, also where several share a commit. Temporary triggers write them. */
import type { Database } from "../database.ts";
import { ofAttempts } from "../thread-events.ts";
import { LEFT_BY_RUN, RUN_COLUMNS, SPANS_OF_RUN, THREAD_COLUMNS } from "./notes.ts";

/** One change of a row. `image` is what it became, as JSON, or the spans that it has; null when it was deleted or has none. */
export interface Change {
  readonly number: number;
  readonly kind: "runs" | "threads" | "writes" | "spans";
  readonly id: string;
  readonly image: string | null;
  /** The columns of a run that was created. */
  readonly extra: string | null;
}

export class Changes {
  readonly #database: Database;
  /** The last changes of batches that are not committed yet. */
  #boundaries: number[] = [];

  constructor(database: Database) {
    this.#database = database;
    database.query(`create temp table if not exists changes (number integer primary key, kind text not null, id text not null,
      image text, extra text)`);
    const image = (columns: readonly string[]): string =>
      `json_object(${columns.map((name) => `'${name}', new.${name}`).join(", ")})`;
    const watch = (table: string, event: string, values: string, when = "true"): void => {
      database.query(`create temp trigger if not exists ${table}_${event} after ${event} on main.${table} when ${when}
        begin insert into changes (kind, id, image, extra) values (${values}); end`);
    };
    const extra = `(select json_array(new.kwargs, new.graph_id, a.context, a.graph_id, new.multitask_strategy, new.webhook,
        new.feedback)
      from assistants a where a.deployment = new.deployment and a.assistant_id = new.assistant_id)`;
    watch("runs", "insert", `'runs', new.run_id, ${image(RUN_COLUMNS)}, ${extra}`);
    watch("runs", "update", `'runs', new.run_id, ${image(RUN_COLUMNS)}, null`);
    watch("runs", "delete", "'runs', old.run_id, null, null");
    for (const event of ["insert", "update"]) {
      watch("threads", event, `'threads', new.thread_id, ${image(THREAD_COLUMNS)}, null`);
      for (const table of LEFT_BY_RUN) watch(table, event, "'writes', new.run_id, null, null");
      watch("thread_events", event, "'writes', new.run_id, null, null", ofAttempts("new."));
      for (const table of SPANS_OF_RUN) watch(table, event, "'spans', new.run_id, new.spans, null");
    }
    watch("threads", "delete", "'threads', old.thread_id, null, null");
    database.query("delete from temp.changes");
  }

  /** A batch is done; it counts once its group is committed. */
  batchDone(): void {
    const [row] = this.#database.query("select max(number) as number from temp.changes");
    const number = Number(row?.number ?? 0);
    if (number > (this.#boundaries.at(-1) ?? 0)) this.#boundaries.push(number);
  }

  /** The group was undone. */
  undone(): void {
    this.#boundaries = [];
  }

  /** Returns the changes of the committed batches, each in its own list, and forgets them. */
  take(): readonly (readonly Change[])[] {
    const changes = this.#database.query("select * from temp.changes order by number") as unknown as Change[];
    const boundaries = this.#boundaries;
    this.#boundaries = [];
    const last = changes.at(-1);
    if (!last) return [];
    this.#database.query("delete from temp.changes");
    if (boundaries.at(-1) !== last.number) boundaries.push(last.number);
    let at = 0;
    return boundaries.map((boundary) => {
      const start = at;
      while (at < changes.length && (changes[at] as Change).number <= boundary) at++;
      return changes.slice(start, at);
    });
  }
}
