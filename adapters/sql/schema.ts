/** The tables. JSON is stored as text, times as milliseconds since 1970, booleans as 0 and 1; every row names its deployment. */

export interface AssistantTable {
  deployment: string;
  assistant_id: string;
  graph_id: string;
  name: string;
  description: string | null;
  config: string;
  context: string;
  metadata: string;
  version: number;
  created_at: number;
  updated_at: number;
  revision: number;
}

export interface AssistantVersionTable {
  deployment: string;
  assistant_id: string;
  version: number;
  graph_id: string;
  name: string;
  description: string | null;
  config: string;
  context: string;
  metadata: string;
  created_at: number;
}

export interface ThreadTable {
  deployment: string;
  thread_id: string;
  created_at: number;
  updated_at: number;
  state_updated_at: number;
  metadata: string;
  config: string;
  graph_id: string | null;
  /** What the last finished run left: idle, interrupted or error. Busy is never stored. */
  status: string;
  head: string | null;
  interrupts: string;
  error: string | null;
  hidden: number;
  revision: number;
  /** Who may execute a run of this thread, and until when. It outlives a run that was deleted under its worker. */
  slot_token: string | null;
  slot_until: number | null;
  /** The latest run that was created; null again once a run was deleted and may have left the slot or a hidden thread behind. */
  last_run: string | null;
  /**
   * How many runs were created and how often the state was changed without one: the number gives each run its `seq`. Below zero
   * within a batch that changes the state (changing.ts), and nowhere else.
   */
  run_count: number;
  /** What becomes of it when nothing has happened on it for so long. */
  ttl_strategy: string | null;
  ttl_ms: number | null;
  /** When `keep_latest` was last done. */
  pruned_at: number | null;
}

export interface RunTable {
  run_id: string;
  deployment: string;
  thread_id: string;
  seq: number;
  assistant_id: string;
  graph_id: string;
  status: string;
  metadata: string;
  kwargs: string;
  multitask_strategy: string;
  temporary: number;
  attempt: number;
  claims: number;
  /** The last claim counted as an attempt. */
  charged: number;
  due_at: number;
  lease_token: string | null;
  lease_until: number | null;
  /** Somebody asked the running run to stop. */
  cancelled: number;
  /** It has stored a root checkpoint. */
  saved: number;
  /** The attempt that was the last to store one; 1 before. */
  progressed: number;
  /** Its frames are stored, and not swept yet. */
  framed: number;
  /** An idempotency key leads to it. */
  keyed: number;
  error: string | null;
  result: string | null;
  created_at: number;
  updated_at: number;
  started_at: number | null;
  ended_at: number | null;
  /** Id of its last frame. */
  end_frame: number | null;
  /** Who made it: a user, and the short form of the key that was used. */
  user_id: string | null;
  api_key: string | null;
  /** JSON list of [feedback key, token id]; null without. */
  feedback: string | null;
  /** Whom to tell of its end: a URL, the host in it and how deep it stands in a chain of relative ones. */
  webhook: string | null;
  webhook_host: string | null;
  webhook_depth: number;
  /** What custom authentication knew of who made it. */
  auth_user: string | null;
  /** The cron that has made it. */
  cron_id: string | null;
  /** Why it was cancelled, as the caller said. */
  cancel_reason: string | null;
}

/** Some frames of a run that were stored together. */
export interface RunFramesTable {
  run_id: string;
  first_id: number;
  last_id: number;
  /** Length of `frames`, roughly. */
  size: number;
  /** JSON list of [event, data], `data` being a text. */
  frames: string;
}

/** Outlives its run: a repeated request must not bring back what was deleted. */
export interface IdempotencyKeyTable {
  deployment: string;
  route: string;
  key: string;
  body_hash: string;
  run_id: string;
  created_at: number;
}

/** Written to see whether writing works. */
export interface ProbeTable {
  name: string;
  at: number;
}

/** A payload is text or bytes, as it came: one of the two columns is null. */
export interface PayloadColumns {
  type: string;
  data: string | null;
  bytes: Uint8Array | null;
}

export interface CheckpointTable extends PayloadColumns {
  deployment: string;
  thread_id: string;
  ns: string;
  checkpoint_id: string;
  seq: number;
  run_id: string | null;
  parent_id: string | null;
  metadata: string;
  versions: string;
  created_at: number;
}

export interface CheckpointWriteTable extends PayloadColumns {
  deployment: string;
  thread_id: string;
  ns: string;
  checkpoint_id: string;
  task_id: string;
  idx: number;
  run_id: string;
  /** `seq` of that run: the newest run's row is the one that counts. Changes without a run have '' and a number of their own. */
  run_seq: number;
  channel: string;
}

export interface ChannelValueTable extends PayloadColumns {
  deployment: string;
  thread_id: string;
  ns: string;
  channel: string;
  version: string;
  run_id: string | null;
  extends_version: string | null;
}

/**
 * One row per scalar in the metadata of an assistant, a visible thread or a cron, and in the values of a thread's state: narrows
 * filters, decides nothing.
 */
export interface LabelTable {
  deployment: string;
  kind: string;
  row_id: string;
  path_hash: number;
  value_hash: number;
  /** What was hashed; null where it is long, or was labelled by an older version. */
  exact: string | null;
  /** Of the row. */
  created_at: number;
}

/** One run whose execution has started; it outlives the run. */
export interface TraceTable {
  trace_id: string;
  deployment: string;
  thread_id: string | null;
  workspace_id: string;
  project_id: string;
  user_id: string | null;
  /** The short form. */
  api_key: string | null;
  started_at: number;
  counted: number;
  tokens_in: number;
  tokens_out: number;
  cost_usd: number;
}

/** Counted traces of one closed hour; no user and no key are ''. */
export interface UsageHourlyTable {
  workspace_id: string;
  /** When it starts. */
  hour: number;
  project_id: string;
  user_id: string;
  api_key: string;
  traces: number;
}

/** One row: hours that start before `sealed_before` are summed. */
export interface UsageSealTable {
  name: string;
  sealed_before: number;
}

export interface FeedbackTokenTable {
  token_id: string;
  deployment: string;
  run_id: string;
  workspace_id: string;
  project_id: string;
  feedback_key: string;
  config: string | null;
  /** How long it lives after its run has ended; null for one that was made by itself. */
  life_ms: number | null;
  expires_at: number | null;
  created_at: number;
  submissions: number;
}

/** `score`, `value` and `correction` are JSON. */
export interface FeedbackTable {
  id: string;
  run_id: string | null;
  workspace_id: string;
  project_id: string;
  thread_id: string | null;
  key: string;
  score: string | null;
  value: string | null;
  comment: string | null;
  correction: string | null;
  source: string;
  source_metadata: string | null;
  user_id: string | null;
  run_started_at: number | null;
  created_at: number;
  modified_at: number;
  extra: string | null;
}

/** The outbox: a finished run, as it ended, that is to be told to a URL. It outlives the run. */
export interface WebhookDeliveryTable {
  /** The run's id. */
  delivery_id: string;
  deployment: string;
  url: string;
  host: string;
  depth: number;
  state: string;
  attempts: number;
  series: number;
  due_at: number;
  claim_token: string | null;
  claimed_until: number | null;
  sent_at: number | null;
  created_at: number;
  thread_id: string;
  assistant_id: string;
  status: string;
  metadata: string;
  kwargs: string;
  multitask_strategy: string;
  attempt: number;
  temporary: number;
  run_created_at: number;
  started_at: number | null;
  ended_at: number;
  error: string | null;
  state_values: string | null;
  values_omitted: number;
  cancel_reason: string | null;
}

export interface DeliveryAttemptTable {
  delivery_id: string;
  number: number;
  at: number;
  status: number | null;
  error: string | null;
  duration_ms: number;
  address: string | null;
}

export interface OrganizationTable {
  id: string;
  name: string;
  created_at: number;
}

export interface WorkspaceTable {
  id: string;
  organization_id: string;
  name: string;
  created_at: number;
  deleted_at: number | null;
}

export interface ProjectTable {
  id: string;
  workspace_id: string;
  name: string;
  created_at: number;
  deleted_at: number | null;
}

export interface DeploymentTable {
  name: string;
  project_id: string;
  owner_user_id: string | null;
  shared: number;
}

export interface UserTable {
  id: string;
  email: string | null;
  name: string | null;
  created_at: number;
  deleted_at: number | null;
}

/** `permissions` is a JSON list. */
export interface MembershipTable {
  subject_id: string;
  scope_id: string;
  permissions: string;
}

export interface ApiKeyTable {
  id: string;
  organization_id: string;
  user_id: string | null;
  kind: string;
  key_hash: string;
  short_key: string;
  description: string | null;
  created_at: number;
  expires_at: number | null;
  revoked_at: number | null;
  last_used_at: number | null;
}

export interface CronTable {
  deployment: string;
  cron_id: string;
  assistant_id: string;
  thread_id: string | null;
  on_run_completed: string | null;
  schedule: string;
  timezone: string | null;
  end_time: number | null;
  enabled: number;
  next_run_date: number | null;
  payload: string;
  metadata: string;
  user_id: string | null;
  auth_user: string | null;
  /** Runs in a row that ended other than well. */
  failures: number;
  created_at: number;
  updated_at: number;
  revision: number;
}

/** One tick. Its key lets no tick fire twice. */
export interface CronFiringTable {
  deployment: string;
  cron_id: string;
  scheduled_at: number;
  fired_at: number;
  run_id: string | null;
  skipped: string | null;
}

export interface StoreItemTable {
  deployment: string;
  /** The labels, each with a dot behind it: no label holds one. */
  path: string;
  key: string;
  value: string;
  /** JSON list of lists of numbers; null for an item that is not found by meaning. */
  vectors: string | null;
  created_at: number;
  updated_at: number;
  ttl_ms: number | null;
  expires_at: number | null;
}

export interface Tables {
  crons: CronTable;
  cron_firings: CronFiringTable;
  store_items: StoreItemTable;
  assistants: AssistantTable;
  assistant_versions: AssistantVersionTable;
  threads: ThreadTable;
  runs: RunTable;
  run_frames: RunFramesTable;
  idempotency_keys: IdempotencyKeyTable;
  probes: ProbeTable;
  checkpoints: CheckpointTable;
  checkpoint_writes: CheckpointWriteTable;
  channel_values: ChannelValueTable;
  labels: LabelTable;
  traces: TraceTable;
  usage_hourly: UsageHourlyTable;
  usage_seals: UsageSealTable;
  feedback_tokens: FeedbackTokenTable;
  feedback: FeedbackTable;
  webhook_deliveries: WebhookDeliveryTable;
  delivery_attempts: DeliveryAttemptTable;
  organizations: OrganizationTable;
  workspaces: WorkspaceTable;
  projects: ProjectTable;
  deployments: DeploymentTable;
  users: UserTable;
  memberships: MembershipTable;
  api_keys: ApiKeyTable;
}

/** One numbered change of the schema. Steps that were released are never edited. */
export interface SchemaStep {
  /** The tables that exist once it is done. */
  readonly tables: readonly (keyof Tables)[];
  readonly statements: readonly string[];
}

const inThread = "foreign key (deployment, thread_id) references threads (deployment, thread_id) on delete cascade";
const onePayload = "check ((data is null) <> (bytes is null))";

/** All steps in order, as they are written for SQLite. */
export const schemaSteps: readonly SchemaStep[] = [
  {
    tables: [
      "assistants",
      "assistant_versions",
      "threads",
      "runs",
      "run_frames",
      "idempotency_keys",
      "probes",
      "checkpoints",
      "checkpoint_writes",
      "channel_values",
      "labels",
    ],
    statements: [
      `create table assistants (
          deployment text not null, assistant_id text not null, graph_id text not null, name text not null,
          description text, config text not null, context text not null, metadata text not null,
          version bigint not null, created_at bigint not null, updated_at bigint not null, revision bigint not null,
          primary key (deployment, assistant_id)
        )`,
      "create index assistants_created on assistants (deployment, created_at)",
      `create table assistant_versions (
          deployment text not null, assistant_id text not null, version bigint not null, graph_id text not null,
          name text not null, description text, config text not null, context text not null, metadata text not null,
          created_at bigint not null,
          primary key (deployment, assistant_id, version),
          foreign key (deployment, assistant_id) references assistants (deployment, assistant_id) on delete cascade
        )`,
      `create table threads (
          deployment text not null, thread_id text not null,
          created_at bigint not null, updated_at bigint not null, state_updated_at bigint not null,
          metadata text not null, config text not null, graph_id text,
          status text not null check (status in ('idle', 'interrupted', 'error')),
          head text, interrupts text not null, error text, hidden integer not null check (hidden in (0, 1)),
          revision bigint not null, slot_token text, slot_until bigint,
          last_run text, run_count bigint not null,
          primary key (deployment, thread_id),
          check ((slot_token is null) = (slot_until is null))
        )`,
      "create index threads_created on threads (deployment, created_at) where hidden = 0",
      "create index threads_updated on threads (deployment, updated_at) where hidden = 0",
      "create index threads_left on threads (deployment, hidden) where last_run is null and run_count > 0",
      `create table runs (
          run_id text not null primary key, deployment text not null, thread_id text not null, seq bigint not null,
          assistant_id text not null, graph_id text not null,
          status text not null check (status in ('pending', 'running', 'success', 'error', 'timeout', 'interrupted')),
          metadata text not null, kwargs text not null,
          multitask_strategy text not null
            check (multitask_strategy in ('reject', 'enqueue', 'interrupt', 'rollback')),
          temporary integer not null check (temporary in (0, 1)), attempt integer not null check (attempt >= 0),
          claims integer not null check (claims >= attempt),
          charged integer not null check (charged in (0, 1)),
          due_at bigint not null, lease_token text, lease_until bigint,
          cancelled integer not null check (cancelled in (0, 1)), saved integer not null check (saved in (0, 1)),
          framed integer not null check (framed in (0, 1)), keyed integer not null check (keyed in (0, 1)),
          error text, result text,
          created_at bigint not null, updated_at bigint not null, started_at bigint, ended_at bigint,
          end_frame bigint,
          check ((ended_at is null) = (status in ('pending', 'running'))),
          check ((ended_at is null) = (end_frame is null)),
          check ((lease_token is null) = (status <> 'running')),
          check ((lease_until is null) = (status <> 'running')),
          ${inThread}
        )`,
      "create unique index runs_order on runs (deployment, thread_id, seq)",
      "create unique index runs_running on runs (deployment, thread_id) where status = 'running'",
      "create index runs_waiting on runs (deployment, thread_id, seq) where status = 'pending'",
      "create index runs_begun on runs (deployment, thread_id, seq) where status = 'pending' and saved = 1",
      "create index runs_pending on runs (deployment, due_at, seq) where status = 'pending'",
      `create index runs_temporary on runs (deployment, ended_at)
          where temporary = 1 and framed = 0 and keyed = 0 and ended_at is not null`,
      "create index runs_framed on runs (deployment, ended_at) where framed = 1 and ended_at is not null",
      `create table run_frames (
          run_id text not null, first_id bigint not null, last_id bigint not null, size bigint not null,
          frames text not null,
          primary key (run_id, first_id),
          check (last_id >= first_id),
          foreign key (run_id) references runs (run_id) on delete cascade
        )`,
      `create table idempotency_keys (
          deployment text not null, route text not null, key text not null, body_hash text not null,
          run_id text not null, created_at bigint not null,
          primary key (deployment, route, key)
        )`,
      "create index keys_created on idempotency_keys (deployment, created_at)",
      "create table probes (name text not null primary key, at bigint not null)",
      `create table checkpoints (
          deployment text not null, thread_id text not null, ns text not null, checkpoint_id text not null,
          seq bigint not null, run_id text, parent_id text, type text not null, data text, bytes blob,
          metadata text not null, versions text not null, created_at bigint not null,
          primary key (deployment, thread_id, ns, checkpoint_id),
          ${onePayload},
          ${inThread}
        )`,
      "create unique index checkpoints_order on checkpoints (deployment, thread_id, seq)",
      `create table checkpoint_writes (
          deployment text not null, thread_id text not null, ns text not null, checkpoint_id text not null,
          task_id text not null, idx integer not null, run_id text not null, run_seq bigint not null,
          channel text not null, type text not null, data text, bytes blob,
          primary key (deployment, thread_id, ns, checkpoint_id, task_id, idx, run_id),
          ${onePayload},
          ${inThread}
        )`,
      `create table channel_values (
          deployment text not null, thread_id text not null, ns text not null, channel text not null,
          version text not null, run_id text, type text not null, data text, bytes blob, extends_version text,
          primary key (deployment, thread_id, ns, channel, version),
          ${onePayload},
          ${inThread}
        )`,
      `create table labels (
          deployment text not null, kind text not null check (kind in ('assistant', 'thread')), row_id text not null,
          path_hash bigint not null, value_hash bigint not null,
          primary key (deployment, kind, row_id, path_hash, value_hash)
        ) without rowid`,
      "create index labels_value on labels (deployment, kind, path_hash, value_hash, row_id)",
    ],
  },
  {
    tables: [
      "traces",
      "usage_hourly",
      "usage_seals",
      "feedback_tokens",
      "feedback",
      "webhook_deliveries",
      "delivery_attempts",
      "organizations",
      "workspaces",
      "projects",
      "deployments",
      "users",
      "memberships",
      "api_keys",
    ],
    statements: [
      "alter table runs add column user_id text",
      "alter table runs add column api_key text",
      "alter table runs add column feedback text",
      "alter table runs add column webhook text",
      "alter table runs add column webhook_host text",
      "alter table runs add column webhook_depth integer not null default 0",
      `create table traces (
          trace_id text not null primary key, deployment text not null, thread_id text, workspace_id text not null,
          project_id text not null, user_id text, api_key text, started_at bigint not null,
          counted integer not null check (counted in (0, 1)),
          tokens_in bigint not null default 0, tokens_out bigint not null default 0, cost_usd double precision not null default 0
        )`,
      "create index traces_billed on traces (workspace_id, started_at) where counted = 1",
      "create index traces_started on traces (started_at) where counted = 1",
      `create table usage_hourly (
          workspace_id text not null, hour bigint not null, project_id text not null, user_id text not null,
          api_key text not null, traces bigint not null check (traces > 0),
          primary key (workspace_id, hour, project_id, user_id, api_key)
        ) without rowid`,
      "create table usage_seals (name text not null primary key, sealed_before bigint not null)",
      `create table feedback_tokens (
          token_id text not null primary key, deployment text not null, run_id text not null, workspace_id text not null,
          project_id text not null, feedback_key text not null, config text, life_ms bigint, expires_at bigint,
          created_at bigint not null, submissions integer not null default 0,
          check (expires_at is not null or life_ms is not null)
        )`,
      "create index feedback_tokens_run on feedback_tokens (run_id, created_at, token_id)",
      "create index feedback_tokens_expiry on feedback_tokens (deployment, expires_at)",
      `create table feedback (
          id text not null primary key, run_id text, workspace_id text not null, project_id text not null, thread_id text,
          key text not null, score text, value text, comment text, correction text, source text not null,
          source_metadata text, user_id text, run_started_at bigint, created_at bigint not null,
          modified_at bigint not null, extra text
        )`,
      "create index feedback_created on feedback (workspace_id, created_at, id)",
      "create index feedback_run on feedback (run_id, created_at, id)",
      `create table webhook_deliveries (
          delivery_id text not null primary key, deployment text not null, url text not null, host text not null,
          depth integer not null, state text not null check (state in ('pending', 'delivered', 'failed')),
          attempts integer not null, series integer not null, due_at bigint not null, claim_token text, claimed_until bigint,
          sent_at bigint, created_at bigint not null, thread_id text not null, assistant_id text not null,
          status text not null, metadata text not null, kwargs text not null, multitask_strategy text not null,
          attempt integer not null, temporary integer not null, run_created_at bigint not null, started_at bigint,
          ended_at bigint not null, error text, state_values text, values_omitted integer not null,
          check ((claim_token is null) = (claimed_until is null)),
          check (claim_token is null or state = 'pending')
        )`,
      "create index deliveries_due on webhook_deliveries (deployment, due_at) where state = 'pending'",
      `create index deliveries_host on webhook_deliveries (deployment, host, due_at, delivery_id)
          where state = 'pending'`,
      "create index deliveries_claimed on webhook_deliveries (deployment, host) where claim_token is not null",
      "create index deliveries_created on webhook_deliveries (deployment, created_at)",
      `create table delivery_attempts (
          delivery_id text not null, number integer not null, at bigint not null, status integer, error text,
          duration_ms bigint not null, address text,
          primary key (delivery_id, number),
          foreign key (delivery_id) references webhook_deliveries (delivery_id) on delete cascade
        )`,
      "create table organizations (id text not null primary key, name text not null unique, created_at bigint not null)",
      `create table workspaces (
          id text not null primary key, organization_id text not null references organizations (id), name text not null,
          created_at bigint not null, deleted_at bigint
        )`,
      "create unique index workspaces_name on workspaces (organization_id, name) where deleted_at is null",
      `create table projects (
          id text not null primary key, workspace_id text not null references workspaces (id), name text not null,
          created_at bigint not null, deleted_at bigint
        )`,
      "create unique index projects_name on projects (workspace_id, name) where deleted_at is null",
      `create table users (
          id text not null primary key, email text, name text, created_at bigint not null, deleted_at bigint
        )`,
      "create unique index users_email on users (email) where deleted_at is null and email is not null",
      `create table deployments (
          name text not null primary key, project_id text not null references projects (id),
          owner_user_id text references users (id), shared integer not null check (shared in (0, 1))
        )`,
      `create table memberships (
          subject_id text not null, scope_id text not null, permissions text not null,
          primary key (subject_id, scope_id)
        )`,
      "create index memberships_scope on memberships (scope_id)",
      `create table api_keys (
          id text not null primary key, organization_id text not null references organizations (id),
          user_id text references users (id), kind text not null check (kind in ('pt', 'sk')),
          key_hash text not null unique, short_key text not null, description text, created_at bigint not null,
          expires_at bigint, revoked_at bigint, last_used_at bigint,
          check ((kind = 'pt') = (user_id is not null))
        )`,
      "create unique index api_keys_short on api_keys (organization_id, short_key)",
    ],
  },
  {
    tables: ["crons", "cron_firings", "store_items"],
    statements: [
      "alter table threads add column ttl_strategy text check (ttl_strategy in ('delete', 'keep_latest'))",
      "alter table threads add column ttl_ms bigint check ((ttl_ms is null) = (ttl_strategy is null))",
      "alter table threads add column pruned_at bigint",
      `create index threads_expiry on threads (deployment, (max(updated_at, state_updated_at) + ttl_ms))
          where ttl_ms is not null
            and (ttl_strategy = 'delete' or pruned_at is null or pruned_at <= max(updated_at, state_updated_at))`,
      "alter table runs add column auth_user text",
      "alter table runs add column cron_id text",
      "alter table users add column workspace_id text",
      "alter table users add column identity text",
      `create unique index users_identity on users (workspace_id, identity)
          where identity is not null and deleted_at is null`,
      `create table labels_of_four (
          deployment text not null, kind text not null check (kind in ('assistant', 'thread', 'cron', 'values')),
          row_id text not null, path_hash bigint not null, value_hash bigint not null, exact text, created_at bigint not null,
          primary key (deployment, kind, row_id, path_hash, value_hash)
        ) without rowid`,
      `insert into labels_of_four select l.deployment, kind, row_id, path_hash, value_hash, null,
          coalesce(t.created_at, a.created_at, 0) from labels l
          left join threads t on kind = 'thread' and t.deployment = l.deployment and t.thread_id = row_id
          left join assistants a on kind = 'assistant' and a.deployment = l.deployment and a.assistant_id = row_id`,
      // The states that are there may hold anything.
      `insert into labels_of_four select deployment, 'values', thread_id, 0, 0, null, created_at from threads
          where hidden = 0 and head is not null`,
      "drop table labels",
      "alter table labels_of_four rename to labels",
      "create index labels_value on labels (deployment, kind, path_hash, value_hash, exact, created_at, row_id)",
      `create table crons (
          deployment text not null, cron_id text not null, assistant_id text not null, thread_id text,
          on_run_completed text check (on_run_completed in ('delete', 'keep')), schedule text not null, timezone text,
          end_time bigint, enabled integer not null check (enabled in (0, 1)), next_run_date bigint,
          payload text not null, metadata text not null, user_id text, auth_user text, failures integer not null default 0,
          created_at bigint not null, updated_at bigint not null, revision bigint not null,
          primary key (deployment, cron_id),
          check ((thread_id is null) = (on_run_completed is not null)),
          foreign key (deployment, assistant_id) references assistants (deployment, assistant_id) on delete cascade,
          ${inThread}
        )`,
      "create index crons_due on crons (deployment, next_run_date) where enabled = 1 and next_run_date is not null",
      "create index crons_created on crons (deployment, created_at)",
      "create index crons_thread on crons (deployment, thread_id) where thread_id is not null",
      "create index crons_assistant on crons (deployment, assistant_id)",
      "create index crons_failing on crons (deployment, failures) where enabled = 1 and failures > 0",
      `create table cron_firings (
          deployment text not null, cron_id text not null, scheduled_at bigint not null, fired_at bigint not null,
          run_id text, skipped text,
          primary key (deployment, cron_id, scheduled_at),
          check ((run_id is null) = (skipped is not null)),
          foreign key (deployment, cron_id) references crons (deployment, cron_id) on delete cascade
        )`,
      "create index cron_firings_fired on cron_firings (deployment, fired_at)",
      // What is long comes last: what stands behind it can only be read through it.
      `create table store_items (
          deployment text not null, path text not null, key text not null,
          created_at bigint not null, updated_at bigint not null, ttl_ms bigint, expires_at bigint,
          value text not null, vectors text,
          primary key (deployment, path, key),
          check ((ttl_ms is null) = (expires_at is null))
        )`,
      `create index runs_passing on runs (deployment, ended_at)
        where temporary = 1 and framed = 1 and ended_at is not null`,
      "create index store_items_expiry on store_items (deployment, expires_at) where expires_at is not null",
    ],
  },
  {
    tables: [],
    statements: [
      "alter table runs add column cancel_reason text",
      "alter table webhook_deliveries add column cancel_reason text",
    ],
  },
  {
    tables: [],
    statements: ["alter table runs add column progressed integer not null default 1"],
  },
  {
    tables: [],
    statements: [
      "drop index runs_pending",
      // Those that were due when they were made ask no clock.
      "create index runs_immediate on runs (deployment, due_at, seq) where status = 'pending' and due_at <= updated_at",
      "create index runs_scheduled on runs (deployment, due_at, seq) where status = 'pending' and due_at > updated_at",
    ],
  },
];

/** The types of columns that do not hold text, by their names. */
export function columnTypes(): ReadonlyMap<string, "bigint" | "double precision" | "bytea"> {
  const found = schemaSteps
    .flatMap(({ statements }) => statements)
    .flatMap((statement) => [...statement.matchAll(/\b([a-z_]+) (text|bigint|integer|double precision|blob)\b/g)]);
  const texts = new Set(found.filter(([, , type]) => type === "text").map(([, name]) => name));
  const types = { bigint: "bigint", integer: "bigint", "double precision": "double precision", blob: "bytea" } as const;
  // A name that is both needs arguments of other names.
  const others = found.filter(([, name]) => !texts.has(name));
  return new Map(others.map(([, name, type]) => [name as string, types[type as keyof typeof types]]));
}

/**
 * What makes the tables of all steps in an empty database: a column that a later step adds is there from the start, behind the
 * others as the step would have put it. To add one rereads the whole schema each time, and was most of the time a new database took.
 */
export function newSchema(): readonly string[] {
  const made: string[] = [];
  for (const statement of schemaSteps.flatMap((step) => step.statements)) {
    const added = /^alter table (\w+) add column (.+)$/s.exec(statement);
    const table = added && made.findLastIndex((other) => other.startsWith(`create table ${added[1]} (`));
    if (table === null) made.push(statement);
    else made[table] = withColumn(made[table] as string, added?.[2] as string);
  }
  return made;
}

/** A table's statement with one column more: behind the last one, before what holds for the table as a whole. */
function withColumn(table: string, column: string): string {
  const constraint = /,\s+(?:primary key|foreign key|check|unique) ?\(|\s*\)[^)]*$/.exec(table) as RegExpExecArray;
  return `${table.slice(0, constraint.index)}, ${column}${table.slice(constraint.index)}`;
}
