/** The tables of durable functions. Calls belong to their threads. */

export const callTables = {
  /** A durable call: an execution of a function from its input to its end, by one run or several. */
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
      /** The input of the function in every attempt, as JSON. */
      beginning: "text not null",
      /** The progress of the function at the newest stored frames, as JSON. */
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
      /** The occurrence of the wait to which the token of the event belongs. */
      occurrence: "bigint",
      payload: "text not null",
      created_at: "bigint not null",
    },
    constraints: [
      "primary key (deployment, thread_id, call_id, seq)",
      "foreign key (deployment, thread_id, call_id) references calls (deployment, thread_id, call_id) on delete cascade",
    ],
  },

  /** The tokens of waits. Anyone with a token may send the event of its wait. */
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
