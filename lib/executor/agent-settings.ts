/** What a host can set for each agent. */
export interface AgentSettings {
  /** How many attempts without progress a run gets before it ends as `error`. Default 3. */
  readonly max_attempts?: number;
  /** The time limit of one attempt before the run ends as `timeout`, in milliseconds. Default: `worker.run_timeout_ms`. */
  readonly timeout_ms?: number;
  /**
   * How long a stopped run may ignore its signal before the worker abandons it, in milliseconds, at most `worker.lease_ms`. The
   * thread's next run starts then. Default 1,000 on a SQLite file that only this process executes, else 5,000.
   */
  readonly abandon_ms?: number;
  /** `by_id`: answers to its interrupts must be given by interrupt id. Default: a plain value answers the only open interrupt. */
  readonly resume?: "by_id";
  /** Of its default assistant. */
  readonly description?: string;
  /** The agent as a tool of MCP clients. */
  readonly mcp?: {
    /** The model that called the tool may answer all interrupts of its calls, approvals included. Default false: only people answer. */
    readonly model_may_answer?: boolean;
  };
  /** The agent for A2A clients, which are models too. */
  readonly a2a?: {
    /** A client may answer the approvals of its tasks. Default false: only people approve. Clients answer other interrupts in any case. */
    readonly caller_may_approve?: boolean;
  };
}
