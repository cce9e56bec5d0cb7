/** Kysely's `sql` tag, and fragments whose text differs between databases. */
import { type OperationNode, type RawBuilder, type RawNode, sql } from "kysely";

export { type RawBuilder, sql };

/** A raw node with another text for Postgres; see `compiler.ts`. */
export interface DialectNode extends RawNode {
  readonly postgres?: OperationNode;
}

/** Returns a fragment that is `sqlite` in statements for SQLite, and `postgres` in statements for Postgres. */
export function byDialect<Value>(sqlite: RawBuilder<Value>, postgres: RawBuilder<unknown>): RawBuilder<Value> {
  const node: DialectNode = {
    kind: "RawNode",
    sqlFragments: ["", ""],
    parameters: [sqlite.toOperationNode()],
    postgres: postgres.toOperationNode(),
  };
  return sql<Value>`${{ toOperationNode: () => node }}`;
}
