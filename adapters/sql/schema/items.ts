/** The table of the store's items. */

export const storeTables = {
  // Long columns come last: SQLite reads the columns behind a long one only through it.
  store_items: {
    columns: {
      deployment: "text not null",
      /** The namespace: its labels, each followed by a dot. A label contains no dot. */
      path: "text not null",
      key: "text not null",
      created_at: "bigint not null",
      updated_at: "bigint not null",
      ttl_ms: "bigint",
      expires_at: "bigint",
      value: "text not null",
      /** JSON list of lists of numbers; null for an item that is not indexed for semantic search. */
      vectors: "text",
    },
    constraints: ["primary key (deployment, path, key)", "check ((ttl_ms is null) = (expires_at is null))"],
    indexes: ["index store_items_expiry on store_items (deployment, expires_at) where expires_at is not null"],
  },
} as const;
