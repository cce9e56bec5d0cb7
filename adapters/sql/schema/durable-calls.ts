/** The tables of durable functions. Calls belong to their threads. */

export const callTables = {
  /** One execution of a function from its input to its end, by one run or several. */
  calls: {
    columns: {
      deployment: "text not null",
      thread_id: "text not null",
      call_id: "text not null",
      graph_id: "text not null",
      /** The run that began it; empty for the copy of a call. */
      first_run: "text not null",
      /** The run that continued it last. */
      run_id: "text not null",
      /** What the function gets in every attempt: JSON. */
      beginning: "text not null",
      /** How far the function was with the newest stored frames: JSON. */
      position: "text",
      /** When the call continues by itself, after its run has ended for an ask. */
      due_at: "bigint",
      created_at: "bigint not null",
      ended_at: "bigint",
    },
    constraints: [
      "primary key (deployment, thread_id, call_id)",
      "foreign key (deployment, thread_id) references threads (deployment, thread_id) on delete cascade",
    ],
    indexes: ["index calls_due on calls (deployment, due_at) where due_at is not null and ended_at is null"],
  },

  /** Journals. */
  call_entries: {
    columns: {
      deployment: "text not null",
      thread_id: "text not null",
      call_id: "text not null",
      idx: "integer not null",
      run_id: "text not null",
      entry: "text not null",
    },
    constraints: [
      "primary key (deployment, thread_id, call_id, idx)",
      "foreign key (deployment, thread_id, call_id) references calls (deployment, thread_id, call_id) on delete cascade",
    ],
  },

  /** Events from outside, until their call is deleted. */
  call_events: {
    columns: {
      deployment: "text not null",
      thread_id: "text not null",
      call_id: "text not null",
      seq: "bigint not null",
      name: "text not null",
      /** Of the wait that the token of the event belongs to. */
      occurrence: "bigint",
      payload: "text not null",
      created_at: "bigint not null",
    },
    constraints: [
      "primary key (deployment, thread_id, call_id, seq)",
      "foreign key (deployment, thread_id, call_id) references calls (deployment, thread_id, call_id) on delete cascade",
    ],
  },

  /** Who knows a token may send the event of a wait. */
  call_tokens: {
    columns: {
      token_hash: "text not null primary key",
      deployment: "text not null",
      thread_id: "text not null",
      call_id: "text not null",
      name: "text not null",
      occurrence: "bigint not null",
    },
    constraints: [
      "foreign key (deployment, thread_id, call_id) references calls (deployment, thread_id, call_id) on delete cascade",
    ],
    indexes: ["index call_tokens_call on call_tokens (deployment, thread_id, call_id)"],
  },
} as const;
