/** Tables of the traces of runs. Their rows outlive stateless runs, so they have no foreign key to runs. */

export const traceTables = {
  /** What a run did. Written by each save that has spans, and by the end of the run. */
  run_traces: {
    columns: {
      run_id: "text not null primary key",
      deployment: "text not null",
      /** Null for a stateless run. */
      thread_id: "text",
      graph_id: "text not null",
      assistant_id: "text not null",
      cron_id: "text",
      user_id: "text",
      source: "text not null",
      status: "text not null check (status in ('pending', 'running', 'success', 'error', 'timeout', 'interrupted'))",
      created_at: "bigint not null",
      started_at: "bigint not null",
      ended_at: "bigint",
      active_ms: "double precision not null",
      /** Tokens in and out. */
      tokens: "bigint not null",
      failed: "integer not null check (failed in (0, 1))",
      error_type: "text",
      /** JSON list such as `["n:tools","t:weather","m:gpt-5"]`. */
      names: "text not null",
      /** JSON: ids, totals, links. */
      head: "text not null",
      /** JSON list of the spans that no part has in their last form; null while the run is active. */
      spans: "text",
      /** The metadata of a stateless run's thread; null if it is long, and for other runs. */
      visible: "text",
    },
    indexes: [
      "index run_traces_started on run_traces (deployment, started_at, run_id)",
      "index run_traces_failed on run_traces (deployment, started_at, run_id) where failed = 1",
    ],
    clustered: true,
  },

  /** Spans that were saved before the end of their run. */
  run_trace_parts: {
    columns: {
      run_id: "text not null",
      part: "bigint not null",
      /** JSON list. */
      spans: "text not null",
    },
    constraints: [
      "primary key (run_id, part)",
      "foreign key (run_id) references run_traces (run_id) on delete cascade",
    ],
  },

  /** Copied values of spans, each once per run. */
  run_trace_contents: {
    columns: {
      run_id: "text not null",
      hash: "text not null",
      content: "text not null",
    },
    constraints: [
      "primary key (run_id, hash)",
      "foreign key (run_id) references run_traces (run_id) on delete cascade",
    ],
  },
} as const;
