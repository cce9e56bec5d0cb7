/**
 * A process that asks to be the worker of a database until it is, prints each change of the answer, and then lives on.
 *   asker.ts PATH node-sqlite|bun-sqlite|libsql
 */
import process from "node:process";
import type { SqlDriver } from "../../../adapters/sql/driver.ts";

async function open(path: string, kind: string): Promise<SqlDriver> {
  if (kind === "bun-sqlite") return (await import("../../../adapters/sqlite/bun.ts")).bunSqliteDriver(path);
  if (kind === "libsql") return (await import("../../../adapters/libsql/mod.ts")).libsqlDriver(`file:${path}`);
  return (await import("../../../adapters/sqlite/node.ts")).nodeSqliteDriver(path);
}

const [path = "", kind = ""] = process.argv.slice(2);
const driver = await open(path, kind);
let answer: boolean | undefined;
const ask = async (): Promise<void> => {
  const now = await driver.acquireWorkerLock?.();
  if (now !== answer) console.log(`worker: ${now}`);
  answer = now;
};
// Should the test be killed, nobody else ends this process.
setTimeout(() => process.exit(1), 60_000);
setInterval(ask, 10);
