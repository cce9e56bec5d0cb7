/** Kysely's compilers for both databases, and what they need for this project's fragments and argument types. */
import { createQueryId, PostgresQueryCompiler, type RawBuilder, type RawNode, SqliteQueryCompiler } from "kysely";
import type { Dialect } from "./dialect.ts";
import type { DialectNode } from "./template.ts";

class PostgresCompiler extends PostgresQueryCompiler {
  readonly #typeOf: (argument: unknown) => string;

  constructor(typeOf: (argument: unknown) => string) {
    super();
    this.#typeOf = typeOf;
  }

  protected override visitRaw(node: RawNode): void {
    const { postgres } = node as DialectNode;
    if (postgres) this.visitNode(postgres);
    else super.visitRaw(node);
  }

  /** Appends `$1::bigint`. Postgres would otherwise guess the type of an argument, or refuse the statement. */
  protected override appendValue(argument: unknown): void {
    // The context decides the type of a null.
    if (argument === null) {
      this.append("null");
    } else {
      super.appendValue(argument);
      this.append(`::${this.#typeOf(argument)}`);
    }
  }
}

/** Compiles a statement to its text and the arguments of its placeholders, in order. `typeOf` names their types in Postgres. */
export function compileQuery(
  query: RawBuilder<unknown>,
  dialect: Dialect,
  typeOf: (argument: unknown) => string,
): { readonly sql: string; readonly parameters: readonly unknown[] } {
  const compiler = dialect === "sqlite" ? new SqliteQueryCompiler() : new PostgresCompiler(typeOf);
  return compiler.compileQuery(query.toOperationNode() as RawNode, createQueryId());
}
