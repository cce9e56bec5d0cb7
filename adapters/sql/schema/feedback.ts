/** The tables of feedback. Their rows outlive the runs that they refer to. */

export const feedbackTables = {
  feedback_tokens: {
    columns: {
      token_id: "text not null primary key",
      deployment: "text not null",
      run_id: "text not null",
      workspace_id: "text not null",
      project_id: "text not null",
      feedback_key: "text not null",
      config: "text",
      /** The time that the token stays valid after its run has ended; null for a token with a fixed expiry. */
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
} as const;
