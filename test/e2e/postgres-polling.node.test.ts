/** On Postgres, each stored stream is complete while readers poll the threads. GREENROOM_POLLED sets the number of runs. */
import assert from "node:assert/strict";
import process from "node:process";
import { it } from "node:test";
import { Client } from "langgraph-sdk-2";
import { serve } from "../../adapters/node/mod.ts";
import { postgres } from "../../adapters/postgres/mod.ts";
import { createHandler } from "../../lib/http/handler.ts";
import { createService, fromFunctions, type JsonObject, type Service } from "../../lib/mod.ts";
import type { Storage } from "../../lib/storage/types.ts";
import { readStoredEvents, startReading } from "../support/event-reading.ts";
import { startPostgres } from "../support/postgres-server.ts";

const RUNS = Number(process.env["GREENROOM_POLLED"] ?? 40);
/** The number of readers that poll a thread, and of threads with concurrent runs. */
const READERS = 4;
const LANES = 2;

const WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight"];

/** Emits the words a few milliseconds apart, so that a save has something to store after each. */
const executor = fromFunctions({
  async *speak({ input }) {
    for (const [at, word] of WORDS.entries()) {
      await new Promise((resolve) => setTimeout(resolve, Number((input as JsonObject)["pause_ms"])));
      yield `${word} `;
      yield { said: WORDS.slice(0, at + 1) };
    }
  },
});

/** Reads the stored frames and events of the only run of a thread, each as a word or two. */
async function keptRun(service: Service, client: Client, thread_id: string, run_id: string): Promise<string[][]> {
  const frames: string[] = [];
  for await (const { event, data } of client.runs.joinStream(thread_id, run_id, { lastEventId: "0" })) {
    const [message] = (event === "messages" ? data : []) as { readonly content: string }[];
    frames.push(message?.content ?? event);
  }
  const events = (await readStoredEvents(service, thread_id)).map(({ method, params }) => {
    const { event, delta } = params.data as { event?: string; delta?: { text?: string } };
    return delta?.text ?? event ?? method;
  });
  const { values } = await service.threads.state(thread_id);
  const messages = ((values as JsonObject)["messages"] ?? []) as { readonly content: string }[];
  return [frames, events, messages.map(({ content }) => content)];
}

it(`${RUNS} runs on Postgres are stored completely while their threads are polled`, async () => {
  const server = await startPostgres({ fsync: false });
  const { url } = await server.database();
  const database = postgres(url);
  let saves = 0;
  const storage: Storage = {
    ...database,
    // Some saves are slow, as on a busy session. The end of the run, which is sent later, may overtake them.
    async saveProgress(...save) {
      if (saves++ % 3 === 0) await new Promise((resolve) => setTimeout(resolve, 5));
      return await database.saveProgress(...save);
    },
  };
  const service = await createService({ storage, executor, environment: { log: () => {} } });
  const handler = createHandler(service);
  const listener = await serve((request) => handler(request), { hostname: "127.0.0.1", port: 0 });
  const apiUrl = `http://127.0.0.1:${listener.port}`;
  const client = new Client({ apiUrl });
  const faults: string[] = [];
  let reads = 0;
  /** Runs the agent while readers poll its thread, and returns what is stored. */
  const speak = async (pause_ms: number, readers: number): Promise<string[][]> => {
    const { thread_id } = await client.threads.create();
    // The run records all events of a thread that has a reader.
    const live = startReading(service, thread_id);
    let over = false;
    const poll = async (): Promise<void> => {
      for (; !over; reads++) assert.equal((await client.threads.get(thread_id)).thread_id, thread_id);
    };
    const polling = Array.from({ length: readers }, poll);
    const request = { input: { pause_ms }, stream_resumable: true, stream_mode: ["messages-tuple", "values"] as const };
    const { run_id } = await service.runs.create(thread_id, { assistant_id: "speak", ...request });
    await client.runs.join(thread_id, run_id);
    over = true;
    await Promise.all(polling);
    await live.close();
    return await keptRun(service, client, thread_id, run_id);
  };
  try {
    const whole = await speak(1, 0);
    for (const word of WORDS) assert.ok(whole.every((lines) => lines.join(" ").includes(word)));
    assert.deepEqual([whole[0]?.at(-1), whole[1]?.at(-1)], ["end", "completed"]);
    const lane = async (first: number): Promise<void> => {
      for (let number = first; number < RUNS; number += LANES) {
        const keptLines = await speak(number % 5, READERS);
        if (JSON.stringify(keptLines) !== JSON.stringify(whole))
          faults.push(`run ${number}: ${JSON.stringify(keptLines)}`);
      }
    };
    await Promise.all(Array.from({ length: LANES }, (_, first) => lane(first)));
  } finally {
    await service.stop(0);
    await listener.close();
    await server.stop();
  }
  assert.deepEqual(faults, []);
  assert.ok(reads >= RUNS, `${reads} reads`);
});
