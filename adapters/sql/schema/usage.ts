/** Tables of traces and usage counts. */

/** Their rows outlive the runs that they refer to. */
export const usageTables = {
  /** A run whose execution has started. */
  traces: {
    columns: {
      trace_id: "text not null primary key",
      deployment: "text not null",
      thread_id: "text",
      workspace_id: "text not null",
      project_id: "text not null",
      user_id: "text",
      /** The short form of the API key. */
      api_key: "text",
      started_at: "bigint not null",
      counted: "integer not null check (counted in (0, 1))",
      tokens_in: "bigint not null default 0",
      tokens_out: "bigint not null default 0",
      cost_usd: "double precision not null default 0",
    },
    indexes: [
      "index traces_billed on traces (workspace_id, started_at) where counted = 1",
      "index traces_started on traces (started_at) where counted = 1",
    ],
  },

  /** Counted traces of one closed hour. A missing user or key is ''. */
  usage_hourly: {
    columns: {
      workspace_id: "text not null",
      /** Start of the hour. */
      hour: "bigint not null",
      project_id: "text not null",
      user_id: "text not null",
      api_key: "text not null",
      traces: "bigint not null check (traces > 0)",
    },
    constraints: ["primary key (workspace_id, hour, project_id, user_id, api_key)"],
    clustered: true,
  },

  /** A single row: hours that start before `sealed_before` are summed in usage_hourly. */
  usage_seals: {
    columns: { name: "text not null primary key", sealed_before: "bigint not null" },
  },
} as const;
