// Bare commits: one small insert per transaction on as many sessions as a process of Greenroom has. Arguments: URL, sessions, seconds.
import process from "node:process";
import pg from "pg";

const [, , url, sessions, seconds] = process.argv;
let commits = 0;
const until = performance.now() + Number(seconds) * 1000;
const payload = "x".repeat(200);
async function session() {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const insert = { name: "insert", text: "insert into bare (id, payload) values ($1, $2)" };
  while (performance.now() < until) {
    await client.query({ ...insert, values: [crypto.randomUUID(), payload] });
    commits += 1;
  }
  await client.end();
}
await Promise.all(Array.from({ length: Number(sessions) }, session));
console.log(JSON.stringify({ per_s: commits / Number(seconds) }));
