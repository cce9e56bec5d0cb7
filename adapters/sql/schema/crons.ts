/** Tables of crons and of their firings. */

export const cronTables = {
  crons: {
    columns: {
      deployment: "text not null",
      cron_id: "text not null",
      assistant_id: "text not null",
      thread_id: "text",
      on_run_completed: "text check (on_run_completed in ('delete', 'keep'))",
      schedule: "text not null",
      timezone: "text",
      end_time: "bigint",
      enabled: "integer not null check (enabled in (0, 1))",
      next_run_date: "bigint",
      payload: "text not null",
      metadata: "text not null",
      user_id: "text",
      auth_user: "text",
      /** Consecutive runs that ended as `error` or `timeout`. */
      failures: "integer not null default 0",
      created_at: "bigint not null",
      updated_at: "bigint not null",
      revision: "bigint not null",
    },
    constraints: [
      "primary key (deployment, cron_id)",
      "check ((thread_id is null) = (on_run_completed is not null))",
      "foreign key (deployment, assistant_id) references assistants (deployment, assistant_id) on delete cascade",
      "foreign key (deployment, thread_id) references threads (deployment, thread_id) on delete cascade",
    ],
    indexes: [
      "index crons_due on crons (deployment, next_run_date) where enabled = 1 and next_run_date is not null",
      "index crons_created on crons (deployment, created_at)",
      "index crons_thread on crons (deployment, thread_id) where thread_id is not null",
      "index crons_assistant on crons (deployment, assistant_id)",
      "index crons_failing on crons (deployment, failures) where enabled = 1 and failures > 0",
    ],
  },

  /** A firing of a cron. The primary key prevents a second firing at the same fire time. */
  cron_firings: {
    columns: {
      deployment: "text not null",
      cron_id: "text not null",
      scheduled_at: "bigint not null",
      fired_at: "bigint not null",
      run_id: "text",
      skipped: "text",
      /** Fired by hand: not at a fire time of the schedule. */
      manual: "integer not null default 0 check (manual in (0, 1))",
    },
    constraints: [
      "primary key (deployment, cron_id, scheduled_at)",
      "check ((run_id is null) = (skipped is not null))",
      "foreign key (deployment, cron_id) references crons (deployment, cron_id) on delete cascade",
    ],
    indexes: ["index cron_firings_fired on cron_firings (deployment, fired_at)"],
  },
} as const;
