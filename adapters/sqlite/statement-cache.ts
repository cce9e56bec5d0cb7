/** Prepared statements by their text; the one not used for longest goes first when the cache is full. */
export class StatementCache<Statement> {
  readonly #prepare: (sql: string) => Statement;
  readonly #release: (statement: Statement) => void;
  readonly #limit: number;
  readonly #statements: Map<string, Statement> = new Map();

  constructor(prepare: (sql: string) => Statement, release: (statement: Statement) => void = () => {}, limit = 500) {
    this.#prepare = prepare;
    this.#release = release;
    this.#limit = limit;
  }

  get(sql: string): Statement {
    const known = this.#statements.get(sql);
    if (known !== undefined) {
      // The order matters only once something has to go.
      if (this.#statements.size > this.#limit / 2) {
        this.#statements.delete(sql);
        this.#statements.set(sql, known);
      }
      return known;
    }
    const statement = this.#prepare(sql);
    this.#statements.set(sql, statement);
    if (this.#statements.size > this.#limit) {
      const [oldest, evicted] = this.#statements.entries().next().value as [string, Statement];
      this.#statements.delete(oldest);
      this.#release(evicted);
    }
    return statement;
  }

  clear(): void {
    for (const statement of this.#statements.values()) this.#release(statement);
    this.#statements.clear();
  }
}
