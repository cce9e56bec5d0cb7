/** Tables of the account model: organizations, workspaces, projects, deployments, users, memberships and API keys. */

export const identityTables = {
  organizations: {
    columns: { id: "text not null primary key", name: "text not null unique", created_at: "bigint not null" },
  },

  workspaces: {
    columns: {
      id: "text not null primary key",
      organization_id: "text not null references organizations (id)",
      name: "text not null",
      created_at: "bigint not null",
      deleted_at: "bigint",
    },
    indexes: ["unique index workspaces_name on workspaces (organization_id, name) where deleted_at is null"],
  },

  projects: {
    columns: {
      id: "text not null primary key",
      workspace_id: "text not null references workspaces (id)",
      name: "text not null",
      created_at: "bigint not null",
      deleted_at: "bigint",
    },
    indexes: ["unique index projects_name on projects (workspace_id, name) where deleted_at is null"],
  },

  users: {
    columns: {
      id: "text not null primary key",
      email: "text",
      name: "text",
      created_at: "bigint not null",
      deleted_at: "bigint",
      /** The workspace of a user of custom authentication, whose name there is `identity`. */
      workspace_id: "text",
      identity: "text",
    },
    indexes: [
      "unique index users_email on users (email) where deleted_at is null and email is not null",
      `unique index users_identity on users (workspace_id, identity)
        where identity is not null and deleted_at is null`,
    ],
  },

  deployments: {
    columns: {
      name: "text not null primary key",
      project_id: "text not null references projects (id)",
      owner_user_id: "text references users (id)",
      shared: "integer not null check (shared in (0, 1))",
    },
  },

  /** `permissions` is a JSON list. */
  memberships: {
    columns: { subject_id: "text not null", scope_id: "text not null", permissions: "text not null" },
    constraints: ["primary key (subject_id, scope_id)"],
    indexes: ["index memberships_scope on memberships (scope_id)"],
  },

  api_keys: {
    columns: {
      id: "text not null primary key",
      organization_id: "text not null references organizations (id)",
      user_id: "text references users (id)",
      kind: "text not null check (kind in ('pt', 'sk'))",
      key_hash: "text not null unique",
      short_key: "text not null",
      description: "text",
      created_at: "bigint not null",
      expires_at: "bigint",
      revoked_at: "bigint",
      last_used_at: "bigint",
    },
    constraints: ["check ((kind = 'pt') = (user_id is not null))"],
    indexes: ["unique index api_keys_short on api_keys (organization_id, short_key)"],
  },
} as const;
