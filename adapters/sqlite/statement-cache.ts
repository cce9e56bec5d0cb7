/** Prepared statements by their text. */
export interface StatementCache<Statement> {
  get(sql: string): Statement;
  clear(): void;
}

/**
 * Creates a cache of up to `limit` statements, which prepares missing ones; the one not used for longest is released first. Uses
 * nothing but its arguments: writer-thread.ts passes the text of this function to a thread.
 */
export function createStatementCache<Statement>(
  prepare: (sql: string) => Statement,
  release: (statement: Statement) => void = () => {},
  limit = 500,
): StatementCache<Statement> {
  const statements = new Map<string, Statement>();
  return {
    /**
     * Returns the cached statement of this SQL, or prepares and caches one. Releases the one not used for longest if there are
     * more than `limit`; a use counts only while the cache is more than half full.
     */
    get(sql) {
      const cached = statements.get(sql);
      if (cached !== undefined) {
        // The order matters only once something has to go.
        if (statements.size > limit / 2) {
          statements.delete(sql);
          statements.set(sql, cached);
        }
        return cached;
      }
      const statement = prepare(sql);
      statements.set(sql, statement);
      if (statements.size > limit) {
        const [oldest, evicted] = statements.entries().next().value as [string, Statement];
        statements.delete(oldest);
        release(evicted);
      }
      return statement;
    },
    /** Releases all statements and removes them. */
    clear() {
      for (const statement of statements.values()) release(statement);
      statements.clear();
    },
  };
}
