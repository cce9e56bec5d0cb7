/** The tables of webhook deliveries and push configurations. */

/** Their rows outlive the runs that they refer to. */
export const deliveryTables = {
  /** The outbox: an ended run with everything that its webhook's payload needs. */
  webhook_deliveries: {
    columns: {
      /** The run's id; that of a push notification is its own. */
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
      stateless: "integer not null",
      run_created_at: "bigint not null",
      started_at: "bigint",
      ended_at: "bigint not null",
      error: "text",
      state_values: "text",
      values_omitted: "integer not null",
      cancel_reason: "text",
      run_id: "text not null",
      /** JSON: the terms of a push configuration; null for the webhook of a run. */
      push: "text",
      /** The open interrupts, for a push notification. */
      interrupts: "text",
      /** The version of the assistant. Null in rows of older releases. */
      assistant_version: "bigint",
      /** JSON: the call that created the run, for its trace. */
      trace_origin: "text",
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

/** Push configurations are deleted with the run that started the task. */
export const pushTables = {
  push_configs: {
    columns: {
      /** A UUID. Ids of deliveries begin with it. */
      push_id: "text not null",
      deployment: "text not null",
      thread_id: "text not null",
      /** The run that began the task. */
      task_id: "text not null",
      config_id: "text not null",
      /** The newest run of the task: its end is told. */
      last_run: "text not null",
      url: "text not null",
      host: "text not null",
      /** JSON: what the request needs. */
      config: "text not null",
      created_at: "bigint not null",
    },
    constraints: [
      "primary key (task_id, config_id)",
      "foreign key (task_id) references runs (run_id) on delete cascade",
    ],
    indexes: ["index push_configs_last on push_configs (last_run)"],
  },
} as const;
