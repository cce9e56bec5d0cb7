/** Kysely's compilers, extended by the fragments and argument types of this project. Nothing else of Kysely is overridden. */
import {
  createQueryId,
  type OperationNode,
  type OperationNodeSource,
  PostgresQueryCompiler,
  type RawNode,
  type RootOperationNode,
  SqliteQueryCompiler,
} from "kysely";
import type { Dialect } from "./driver.ts";
import { Parameter } from "./parameters.ts";

/** A raw node with another text for Postgres; see `byDialect`. */
export interface DialectNode extends RawNode {
  readonly postgres?: OperationNode;
}

export interface CompileOptions {
  /** See `QueryOptions.stable`. "rows": also the arguments of a list of rows. */
  readonly stable?: boolean | "rows";
}

class SqliteCompiler extends SqliteQueryCompiler {
  readonly #stable: boolean | "rows";

  constructor(stable: boolean | "rows") {
    super();
    this.#stable = stable;
  }

  /**
   * Returns true for a parameter of a statement compiled with `stable`. For a parameter of a list of rows, `stable` must be
   * "rows".
   */
  #isStable(argument: unknown): boolean {
    if (!this.#stable || !(argument instanceof Parameter)) return false;
    return argument.row === null || this.#stable === "rows";
  }

  /** Appends a placeholder. It stands in a subquery, as `(select ?)`, if the plan must not depend on the value. */
  protected override appendValue(argument: unknown): void {
    if (this.#isStable(argument)) {
      this.append("(select ");
      super.appendValue(argument);
      this.append(")");
    } else {
      super.appendValue(argument);
    }
  }
}

class PostgresCompiler extends PostgresQueryCompiler {
  /** Writes the variant for Postgres, if the node has one. */
  protected override visitRaw(node: RawNode): void {
    const { postgres } = node as DialectNode;
    if (postgres) this.visitNode(postgres);
    else super.visitRaw(node);
  }

  /**
   * Appends the placeholder with its type, as `$1::bigint`, because Postgres would otherwise guess the type or refuse the
   * statement. A null becomes the word `null` without a placeholder.
   */
  protected override appendValue(argument: unknown): void {
    // The context decides the type of a null.
    if (argument === null) {
      this.append("null");
    } else {
      super.appendValue(argument);
      this.append(`::${argumentType(argument)}`);
    }
  }
}

/**
 * Returns the Postgres type of an argument: the declared type of a parameter; else by the value `bigint`, `double precision`,
 * `bytea` or `text`.
 */
function argumentType(argument: unknown): string {
  if (argument instanceof Parameter) return argument.type.postgres;
  if (typeof argument === "number") return Number.isInteger(argument) ? "bigint" : "double precision";
  return argument instanceof Uint8Array ? "bytea" : "text";
}

/** Compiles a statement. Returns its text, and in order a parameter or a value for each of its placeholders. */
export function compileQuery(
  query: OperationNodeSource,
  dialect: Dialect,
  { stable = false }: CompileOptions = {},
): { readonly sql: string; readonly parameters: readonly unknown[] } {
  const compiler = dialect === "sqlite" ? new SqliteCompiler(stable) : new PostgresCompiler();
  return compiler.compileQuery(query.toOperationNode() as RootOperationNode, createQueryId());
}
