/** Tables of one deployment's assistants, threads, runs and checkpoints. */

/** Returns the triggers that count the rows of a table which meet a condition that never changes. */
const createCountTriggers = (kind: string, table: string, condition: string): readonly string[] => {
  const when = (row: string): string => (condition === "" ? "" : `when ${row}.${condition}`);
  return [
    `trigger ${table}_counted after insert on ${table} ${when("new")} begin
      insert into row_counts (deployment, kind, total) values (new.deployment, '${kind}', 1)
        on conflict (deployment, kind) do update set total = total + 1;
    end`,
    `trigger ${table}_uncounted after delete on ${table} ${when("old")} begin
      update row_counts set total = total - 1 where deployment = old.deployment and kind = '${kind}';
    end`,
  ];
};

const COUNT_TRIGGERS: readonly string[] = [
  ...createCountTriggers("assistant", "assistants", ""),
  ...createCountTriggers("thread", "threads", "hidden = 0"),
];

export const agentTables = {
  assistants: {
    columns: {
      deployment: "text not null",
      assistant_id: "text not null",
      graph_id: "text not null",
      name: "text not null",
      description: "text",
      config: "text not null",
      context: "text not null",
      metadata: "text not null",
      /** The active version. */
      version: "bigint not null",
      created_at: "bigint not null",
      updated_at: "bigint not null",
      revision: "bigint not null",
    },
    constraints: ["primary key (deployment, assistant_id)"],
    indexes: ["index assistants_created on assistants (deployment, created_at)"],
  },

  assistant_versions: {
    columns: {
      deployment: "text not null",
      assistant_id: "text not null",
      version: "bigint not null",
      graph_id: "text not null",
      name: "text not null",
      description: "text",
      config: "text not null",
      context: "text not null",
      metadata: "text not null",
      created_at: "bigint not null",
    },
    constraints: [
      "primary key (deployment, assistant_id, version)",
      "foreign key (deployment, assistant_id) references assistants (deployment, assistant_id) on delete cascade",
    ],
  },

  threads: {
    columns: {
      deployment: "text not null",
      thread_id: "text not null",
      created_at: "bigint not null",
      updated_at: "bigint not null",
      state_updated_at: "bigint not null",
      metadata: "text not null",
      config: "text not null",
      graph_id: "text",
      /** The resting status that the last finished run left. `busy` is computed, never stored. */
      status: "text not null check (status in ('idle', 'interrupted', 'error'))",
      head: "text",
      interrupts: "text not null",
      error: "text",
      hidden: "integer not null check (hidden in (0, 1))",
      /** Its runs record events of all methods. */
      all_events: "integer not null default 0",
      revision: "bigint not null",
      /** The lease token that may execute a run of this thread. It outlives a run that was deleted while it executed. */
      slot_token: "text",
      slot_until: "bigint",
      /** The run created last. Null after a run was deleted that may have left a slot or a hidden thread behind. */
      last_run: "text",
      /** Runs created plus state updates: gives each its `seq`. Negative only inside the batch of a state update. */
      run_count: "bigint not null",
      /** Number of claims so far: each claim of a run of this thread takes the next number. */
      claim_count: "bigint not null default 0",
      /** The action after the thread was inactive for `ttl_ms`. */
      ttl_strategy: "text check (ttl_strategy in ('delete', 'keep_latest'))",
      ttl_ms: "bigint check ((ttl_ms is null) = (ttl_strategy is null))",
      /** When `keep_latest` last ran. */
      pruned_at: "bigint",
    },
    constraints: ["primary key (deployment, thread_id)", "check ((slot_token is null) = (slot_until is null))"],
    indexes: [
      "index threads_created on threads (deployment, created_at) where hidden = 0",
      "index threads_updated on threads (deployment, updated_at) where hidden = 0",
      "index threads_interrupted on threads (deployment, state_updated_at, thread_id) where hidden = 0 and status = 'interrupted'",
      "index threads_left on threads (deployment, hidden) where last_run is null and run_count > 0",
      `index threads_expiry on threads
        (deployment, (case when updated_at > state_updated_at then updated_at else state_updated_at end + ttl_ms))
        where ttl_ms is not null and (ttl_strategy = 'delete' or pruned_at is null
          or pruned_at <= case when updated_at > state_updated_at then updated_at else state_updated_at end)`,
    ],
  },

  runs: {
    columns: {
      run_id: "text not null primary key",
      deployment: "text not null",
      thread_id: "text not null",
      seq: "bigint not null",
      assistant_id: "text not null",
      graph_id: "text not null",
      status: "text not null check (status in ('pending', 'running', 'success', 'error', 'timeout', 'interrupted'))",
      metadata: "text not null",
      kwargs: "text not null",
      multitask_strategy: "text not null check (multitask_strategy in ('reject', 'enqueue', 'interrupt', 'rollback'))",
      stateless: "integer not null check (stateless in (0, 1))",
      attempt: "integer not null check (attempt >= 0)",
      claims: "integer not null check (claims >= attempt)",
      /** The latest claim counts as an attempt. */
      counts_as_attempt: "integer not null check (counts_as_attempt in (0, 1))",
      /** The number that the latest claim took from its thread; 0 before the first claim. */
      claim_number: "bigint not null default 0",
      due_at: "bigint not null",
      lease_token: "text",
      lease_until: "bigint",
      /** A stop of the running run was requested. */
      cancelled: "integer not null check (cancelled in (0, 1))",
      /** The run has stored a root checkpoint. */
      has_checkpoint: "integer not null check (has_checkpoint in (0, 1))",
      /** The latest attempt that stored a root checkpoint; 1 before. */
      progressed: "integer not null default 1",
      /** Its frames are stored and not yet deleted by retention. */
      has_frames: "integer not null check (has_frames in (0, 1))",
      /** An idempotency key refers to it. */
      has_idempotency_key: "integer not null check (has_idempotency_key in (0, 1))",
      error: "text",
      result: "text",
      created_at: "bigint not null",
      updated_at: "bigint not null",
      started_at: "bigint",
      ended_at: "bigint",
      /** Id of its last frame. */
      end_frame: "bigint",
      /** The user who created it and the short form of the API key that was used. */
      user_id: "text",
      api_key: "text",
      /** JSON list of [feedback key, token id]; null without tokens. */
      feedback: "text",
      /** The webhook: its URL, the host in it, and its depth in a chain of relative URLs. */
      webhook: "text",
      webhook_host: "text",
      webhook_depth: "bigint not null default 0",
      /** The user as custom authentication returned it. */
      auth_user: "text",
      /** The cron that created it. */
      cron_id: "text",
      cancel_reason: "text",
      /** A line of JSON per claim and per lost lease, the newest first. The end may be cut off. */
      claim_log: "text",
      /** The call of a durable function that it executes. */
      call_id: "text",
      /** JSON: what a suspended run waits for. */
      waiting_for: "text",
      /** JSON list of the interrupts that it answers; null without any. */
      resume_targets: "text",
      /** JSON: the call that created it, for its trace. */
      trace_origin: "text",
      /** The version of the assistant that it executes. Null in rows of older releases. */
      assistant_version: "bigint",
    },
    constraints: [
      "check ((ended_at is null) = (status in ('pending', 'running')))",
      "check ((ended_at is null) = (end_frame is null))",
      "check ((lease_token is null) = (status <> 'running'))",
      "check ((lease_until is null) = (status <> 'running'))",
      "foreign key (deployment, thread_id) references threads (deployment, thread_id) on delete cascade",
    ],
    indexes: [
      "unique index runs_order on runs (deployment, thread_id, seq)",
      "index runs_status on runs (deployment, status, created_at, run_id)",
      "index runs_cron on runs (deployment, cron_id, created_at, run_id) where cron_id is not null",
      // Stands behind the slot: at most one running run per thread, whatever a statement does wrong.
      "unique index runs_running on runs (deployment, thread_id) where status = 'running'",
      "index runs_waiting on runs (deployment, thread_id, seq) where status = 'pending'",
      "index runs_suspended on runs (deployment) where status = 'pending' and waiting_for is not null",
      "index runs_begun on runs (deployment, thread_id, seq) where status = 'pending' and has_checkpoint = 1",
      // Runs that were due when they were created do not depend on the clock, which may be set back.
      "index runs_immediate on runs (deployment, due_at, seq) where status = 'pending' and due_at <= updated_at",
      "index runs_scheduled on runs (deployment, due_at, seq) where status = 'pending' and due_at > updated_at",
      `index runs_stateless on runs (deployment, ended_at)
        where stateless = 1 and has_frames = 0 and has_idempotency_key = 0 and ended_at is not null`,
      "index runs_with_frames on runs (deployment, ended_at) where has_frames = 1 and ended_at is not null",
      `index runs_passing on runs (deployment, ended_at)
        where stateless = 1 and has_frames = 1 and ended_at is not null`,
    ],
  },

  /** Frames of a run that were stored together. */
  run_frames: {
    columns: {
      run_id: "text not null",
      first_id: "bigint not null",
      last_id: "bigint not null",
      /** The length of the frames' texts. */
      size: "bigint not null",
      /** Packed by `packed` in runs/frames.ts. */
      frames: "text not null",
    },
    constraints: [
      "primary key (run_id, first_id)",
      "check (last_id >= first_id)",
      "foreign key (run_id) references runs (run_id) on delete cascade",
    ],
  },

  /** Events of a thread that were stored together. They outlive their run until it is rolled back. */
  thread_events: {
    columns: {
      deployment: "text not null",
      thread_id: "text not null",
      first_seq: "bigint not null",
      last_seq: "bigint not null",
      run_id: "text not null",
      /** Bit set of the methods of its events: 1 << their place in EVENT_METHODS. */
      methods: "bigint not null",
      /** Approximate length of `events`. */
      size: "bigint not null",
      created_at: "bigint not null",
      /** JSON list of [seq - first_seq, method, namespace, timestamp, data, node, checkpoint_id, name]. */
      events: "text not null",
    },
    constraints: [
      "primary key (deployment, thread_id, first_seq)",
      "check (last_seq >= first_seq)",
      "foreign key (deployment, thread_id) references threads (deployment, thread_id) on delete cascade",
    ],
    indexes: ["index thread_events_created on thread_events (deployment, created_at)"],
  },

  /** A key outlives its run: a repeated request must not create again what was deleted. */
  idempotency_keys: {
    columns: {
      deployment: "text not null",
      route: "text not null",
      key: "text not null",
      body_hash: "text not null",
      run_id: "text not null",
      created_at: "bigint not null",
    },
    constraints: ["primary key (deployment, route, key)"],
    indexes: ["index keys_created on idempotency_keys (deployment, created_at)"],
  },

  /** Rows of `Storage.probe`, which tests whether writing works: row 0, and after a failed write rows with a padding. */
  write_probes: {
    columns: { id: "bigint not null primary key", at: "bigint not null", padding: "text not null" },
  },

  /** The highest claim count of the deleted threads whose ids end alike: ids are UUIDs, so there are at most 65,536 for a deployment. */
  deleted_thread_claims: {
    columns: { deployment: "text not null", id_suffix: "text not null", claim_count: "bigint not null" },
    constraints: ["primary key (deployment, id_suffix)"],
    clustered: true,
  },

  /** Has no rows: an assertion that fails inserts a 0, and the constraint fails its batch. */
  assertions: {
    columns: { holds: "integer not null constraint assertion_holds check (holds = 1)" },
  },

  /** A payload is text or bytes: either `data` or `bytes` is null, here and in the next two tables. */
  checkpoints: {
    columns: {
      deployment: "text not null",
      thread_id: "text not null",
      ns: "text not null",
      checkpoint_id: "text not null",
      seq: "bigint not null",
      run_id: "text",
      parent_id: "text",
      type: "text not null",
      data: "text",
      bytes: "blob",
      metadata: "text not null",
      versions: "text not null",
      created_at: "bigint not null",
    },
    constraints: [
      "primary key (deployment, thread_id, ns, checkpoint_id)",
      "check ((data is null) <> (bytes is null))",
      "foreign key (deployment, thread_id) references threads (deployment, thread_id) on delete cascade",
    ],
    indexes: ["unique index checkpoints_order on checkpoints (deployment, thread_id, seq)"],
  },

  checkpoint_writes: {
    columns: {
      deployment: "text not null",
      thread_id: "text not null",
      ns: "text not null",
      checkpoint_id: "text not null",
      task_id: "text not null",
      idx: "integer not null",
      run_id: "text not null",
      /** `seq` of that run: the row of the newest run counts. A state update has run_id '' and a number of its own. */
      run_seq: "bigint not null",
      channel: "text not null",
      type: "text not null",
      data: "text",
      bytes: "blob",
    },
    constraints: [
      "primary key (deployment, thread_id, ns, checkpoint_id, task_id, idx, run_id)",
      "check ((data is null) <> (bytes is null))",
      "foreign key (deployment, thread_id) references threads (deployment, thread_id) on delete cascade",
    ],
  },

  channel_values: {
    columns: {
      deployment: "text not null",
      thread_id: "text not null",
      ns: "text not null",
      channel: "text not null",
      version: "text not null",
      run_id: "text",
      type: "text not null",
      data: "text",
      bytes: "blob",
      /** `data` is the tail that follows the value of this version. */
      extends_version: "text",
    },
    constraints: [
      "primary key (deployment, thread_id, ns, channel, version)",
      "check ((data is null) <> (bytes is null))",
      "foreign key (deployment, thread_id) references threads (deployment, thread_id) on delete cascade",
    ],
  },

  /**
   * The metadata index: a row per scalar in the metadata of an assistant, a visible thread or a cron, and in the values of a thread's
   * state. Index entries narrow a filtered search; the comparison of the JSON decides.
   */
  labels: {
    columns: {
      deployment: "text not null",
      kind: "text not null check (kind in ('assistant', 'thread', 'cron', 'values'))",
      row_id: "text not null",
      path_hash: "bigint not null",
      value_hash: "bigint not null",
      /** The text that was hashed; null where it is long. */
      exact: "text",
      /** `created_at` of the labelled row. */
      created_at: "bigint not null",
    },
    constraints: ["primary key (deployment, kind, row_id, path_hash, value_hash)"],
    indexes: ["index labels_value on labels (deployment, kind, path_hash, value_hash, exact, created_at, row_id)"],
    clustered: true,
  },

  /**
   * The number of assistants and visible threads of a deployment, which SQLite updates in the batches that change them. Postgres counts
   * rows: there each creation would wait for the one before it.
   */
  row_counts: {
    columns: { deployment: "text not null", kind: "text not null", total: "bigint not null" },
    constraints: ["primary key (deployment, kind)"],
    clustered: true,
    triggers: COUNT_TRIGGERS as readonly string[],
  },
} as const;
