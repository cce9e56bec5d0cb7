/** Tables of usage, feedback and webhook deliveries. Their rows outlive the runs that they refer to. */

export const platformTables = {
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

  /** One row: hours that start before `sealed_before` are summed in usage_hourly. */
  usage_seals: {
    columns: { name: "text not null primary key", sealed_before: "bigint not null" },
  },

  feedback_tokens: {
    columns: {
      token_id: "text not null primary key",
      deployment: "text not null",
      run_id: "text not null",
      workspace_id: "text not null",
      project_id: "text not null",
      feedback_key: "text not null",
      config: "text",
      /** How long the token stays valid after its run has ended; null for a token with a fixed expiry. */
      life_ms: "bigint",
      expires_at: "bigint",
      created_at: "bigint not null",
      submissions: "integer not null default 0",
    },
    constraints: ["check (expires_at is not null or life_ms is not null)"],
    indexes: [
      "index feedback_tokens_run on feedback_tokens (run_id, created_at, token_id)",
      "index feedback_tokens_created on feedback_tokens (deployment, created_at, token_id)",
      "index feedback_tokens_expiry on feedback_tokens (deployment, expires_at)",
    ],
  },

  /** `score`, `value` and `correction` are JSON. */
  feedback: {
    columns: {
      id: "text not null primary key",
      run_id: "text",
      workspace_id: "text not null",
      project_id: "text not null",
      thread_id: "text",
      key: "text not null",
      score: "text",
      value: "text",
      comment: "text",
      correction: "text",
      source: "text not null",
      source_metadata: "text",
      user_id: "text",
      run_started_at: "bigint",
      created_at: "bigint not null",
      modified_at: "bigint not null",
      extra: "text",
    },
    indexes: [
      "index feedback_created on feedback (workspace_id, created_at, id)",
      "index feedback_run on feedback (run_id, created_at, id)",
    ],
  },

  /** The outbox: an ended run with everything that its webhook's payload needs. */
  webhook_deliveries: {
    columns: {
      /** The run's id. */
      delivery_id: "text not null primary key",
      deployment: "text not null",
      url: "text not null",
      host: "text not null",
      depth: "integer not null",
      state: "text not null check (state in ('pending', 'delivered', 'failed'))",
      attempts: "integer not null",
      /** Attempts in the current retry series. */
      series_attempts: "integer not null",
      due_at: "bigint not null",
      claim_token: "text",
      claimed_until: "bigint",
      sent_at: "bigint",
      created_at: "bigint not null",
      thread_id: "text not null",
      assistant_id: "text not null",
      status: "text not null",
      metadata: "text not null",
      kwargs: "text not null",
      multitask_strategy: "text not null",
      attempt: "integer not null",
      temporary: "integer not null",
      run_created_at: "bigint not null",
      started_at: "bigint",
      ended_at: "bigint not null",
      error: "text",
      state_values: "text",
      values_omitted: "integer not null",
      cancel_reason: "text",
    },
    constraints: [
      "check ((claim_token is null) = (claimed_until is null))",
      "check (claim_token is null or state = 'pending')",
    ],
    indexes: [
      "index deliveries_due on webhook_deliveries (deployment, due_at) where state = 'pending'",
      "index deliveries_host on webhook_deliveries (deployment, host, due_at, delivery_id) where state = 'pending'",
      "index deliveries_claimed on webhook_deliveries (deployment, host) where claim_token is not null",
      "index deliveries_created on webhook_deliveries (deployment, created_at, delivery_id)",
      "index deliveries_failed on webhook_deliveries (deployment, created_at, delivery_id) where state = 'failed'",
    ],
  },

  delivery_attempts: {
    columns: {
      delivery_id: "text not null",
      number: "integer not null",
      at: "bigint not null",
      status: "integer",
      error: "text",
      duration_ms: "bigint not null",
      address: "text",
      /** The start of the answer's body. */
      answer: "text",
    },
    constraints: [
      "primary key (delivery_id, number)",
      "foreign key (delivery_id) references webhook_deliveries (delivery_id) on delete cascade",
    ],
  },
} as const;
