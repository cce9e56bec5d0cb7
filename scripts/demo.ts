// Serves the demo agents (`npm start`). A fresh database gets two threads to look at: a chat, and a refund that waits for approval.
import { join } from "node:path";
import process from "node:process";
import { main } from "../adapters/standalone/main.ts";

/** The item of the store that says that this database had its threads: a deleted thread must not come back. */
const MARKER = { namespace: ["demo"], key: "threads" };

/** Sends a request, and reads its JSON. Throws for an error, for example where the server needs a key. */
async function request(url: string, body?: unknown, method = "POST"): Promise<unknown> {
  const init = body === undefined ? {} : { method, body: JSON.stringify(body) };
  const response = await fetch(url, init);
  if (!response.ok) throw new Error(`${url} answered ${response.status}`);
  return response.status === 204 ? null : await response.json();
}

async function isFresh(url: string): Promise<boolean> {
  const { key, namespace } = MARKER;
  const marker = await request(`${url}/store/items?key=${key}&namespace=${namespace.join(".")}`);
  return marker === null && (await request(`${url}/threads/count`, {})) === 0;
}

async function createThread(url: string, assistant_id: string, ...texts: readonly string[]): Promise<void> {
  const { thread_id } = (await request(`${url}/threads`, { metadata: { demo: true } })) as { thread_id: string };
  for (const content of texts) {
    const input = { messages: [{ role: "user", content }] };
    await request(`${url}/threads/${thread_id}/runs/wait`, { assistant_id, input });
  }
}

const config = join(import.meta.dirname, "../examples/demo/greenroom.json");
const server = await main(["--config", config, ...process.argv.slice(2)]);
if (server && (await isFresh(server.url).catch(() => false))) {
  const { url } = server;
  await request(`${url}/store/items`, { ...MARKER, value: { created: true } }, "PUT");
  await createThread(url, "writer", "What is a green room?", "Why is it green?");
  await createThread(url, "approval", "Please refund 30 euros.");
  console.log(`Two threads to look at: ${url}/studio/`);
}
