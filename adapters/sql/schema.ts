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
  /** How many runs were created: the number gives each its `seq`. */
  run_count: number;
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
  /** `seq` of that run: the newest run's row is the one that counts. */
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

/** One row per scalar in the metadata of an assistant or a visible thread: narrows filters, decides nothing. */
export interface LabelTable {
  deployment: string;
  kind: string;
  row_id: string;
  path_hash: number;
  value_hash: number;
}

export interface Tables {
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
}

/** One numbered change of the schema. Steps that were released are never edited. */
export interface SchemaStep {
  /** The tables that exist once it is done. */
  readonly tables: readonly (keyof Tables)[];
  readonly statements: readonly string[];
}

const inThread = "foreign key (deployment, thread_id) references threads (deployment, thread_id) on delete cascade";
const onePayload = "check ((data is null) <> (bytes is null))";

/** All steps in order; `bytes` is the database's type for bytes. */
export function schemaSteps(bytes: "blob" | "bytea"): readonly SchemaStep[] {
  return [
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
          seq bigint not null, run_id text, parent_id text, type text not null, data text, bytes ${bytes},
          metadata text not null, versions text not null, created_at bigint not null,
          primary key (deployment, thread_id, ns, checkpoint_id),
          ${onePayload},
          ${inThread}
        )`,
        "create unique index checkpoints_order on checkpoints (deployment, thread_id, seq)",
        `create table checkpoint_writes (
          deployment text not null, thread_id text not null, ns text not null, checkpoint_id text not null,
          task_id text not null, idx integer not null, run_id text not null, run_seq bigint not null,
          channel text not null, type text not null, data text, bytes ${bytes},
          primary key (deployment, thread_id, ns, checkpoint_id, task_id, idx, run_id),
          ${onePayload},
          ${inThread}
        )`,
        `create table channel_values (
          deployment text not null, thread_id text not null, ns text not null, channel text not null,
          version text not null, run_id text, type text not null, data text, bytes ${bytes}, extends_version text,
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
  ];
}
