// Last month's usage of every workspace as a CSV file: API_KEY=gr_sk_… npx bun examples/usage-export.ts [URL]
import { writeFile } from "node:fs/promises";
import process from "node:process";

const base = `${process.argv[2] ?? "http://127.0.0.1:2024"}/api/v1`;
// Without keys (greenroom keys create) the server asks for none, and does not mind an empty one.
const headers = { "x-api-key": process.env.API_KEY ?? "" };

async function get(path: string, query: readonly (readonly [name: string, value: string])[]): Promise<Response> {
  const search = new URLSearchParams(query.map(([name, value]): [string, string] => [name, value]));
  const response = await fetch(`${base}${path}?${search}`, { headers });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return response;
}

// Full months in UTC, as bills have them; the end does not belong to the range.
const now = new Date();
const start = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - 1));
const end = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth()));

const list = await get("/workspaces", [["limit", "1000"]]);
const workspaces: readonly { readonly id: string }[] = await list.json();
const report = await get("/orgs/current/billing/granular-usage/export", [
  ["start_time", start.toISOString()],
  ["end_time", end.toISOString()],
  ["group_by", "project"],
  ...workspaces.map(({ id }): [string, string] => ["workspace_ids", id]),
]);
const file = /filename="(.+)"/.exec(report.headers.get("content-disposition") ?? "")?.[1] ?? "usage.csv";
await writeFile(file, await report.text());
console.log(`Wrote ${file}`);
