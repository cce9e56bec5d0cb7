/** PGlite, Postgres inside this process, as a host's pool. It has one session: each caller waits for the one before. */
import type { PGlite } from "@electric-sql/pglite";
import type { PostgresConnection, PostgresPoolOptions } from "../../../adapters/postgres/mod.ts";

export function pgliteOptions(db: PGlite): PostgresPoolOptions {
  let last: Promise<void> = Promise.resolve();
  const connect = async (): Promise<PostgresConnection> => {
    const before = last;
    let release = (): void => {};
    last = new Promise((resolve) => {
      release = resolve;
    });
    await before;
    return {
      // Only `exec` takes several statements.
      query: async (text, values) => (values ? await db.query(text, values) : await db.exec(text)),
      release,
    };
  };
  return {
    pool: { connect },
    listen: async () => ({
      async query(text, values) {
        const session = await connect();
        try {
          return await session.query(text, values);
        } finally {
          session.release();
        }
      },
      on(event, listener) {
        if (event === "notification") db.onNotification((channel, payload) => listener({ channel, payload }));
      },
    }),
  };
}
