/** The settings of one agent. */
export interface AgentSettings {
  /** The number of attempts without progress after which a run ends as `error`. Default 3. */
  readonly max_attempts?: number;
  /** The time limit of one attempt before the run ends as `timeout`, in milliseconds. Default: `worker.run_timeout_ms`. */
  readonly timeout_ms?: number;
  /**
   * The time in milliseconds that a stopped run may ignore its signal before the worker abandons it, at most `worker.lease_ms`.
   * The thread's next run starts then. Default 1,000 on a SQLite file that only this process executes, else 5,000.
   */
  readonly abandon_ms?: number;
  /** `by_id` requires resume values by interrupt id. By default a plain value resumes the only pending interrupt. */
  readonly resume?: "by_id";
  /** The description of its default assistant. */
  readonly description?: string;
  /** The settings of the agent as a tool of MCP clients. */
  readonly mcp?: {
    /**
     * True if the model that called the tool may answer all interrupts of its calls, approvals included. Default false: only
     * people answer.
     */
    readonly model_may_answer?: boolean;
  };
  /** The settings of the agent for A2A clients, which are models too. */
  readonly a2a?: {
    /**
     * True if a client may answer the approvals of its tasks. Default false: only people approve. Clients answer other interrupts
     * in any case.
     */
    readonly caller_may_approve?: boolean;
  };
}
