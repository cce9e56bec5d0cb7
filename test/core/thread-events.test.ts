import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type AgentFunction, fromFunctions, type Service } from "../../lib/mod.ts";
import { serviceInternals } from "../../lib/service.ts";
import { EVERYTHING } from "../../lib/storage/visibility.ts";
import type { EventFilter, ProtocolEvent, SentEvent } from "../../lib/streams/protocol.ts";
import { testService } from "../suite/kit.ts";
import { until } from "../support/until.ts";

const ALL: EventFilter = {
  channels: ["lifecycle", "values", "checkpoints", "input", "updates", "messages", "tools", "tasks", "custom"],
};

const parse = ({ text, seq, event_id, method }: SentEvent): ProtocolEvent => {
  const event = JSON.parse(text) as ProtocolEvent;
  assert.deepEqual([event.seq, event.event_id, event.method], [seq, event_id, method]);
  return event;
};

/** Reads live events of a thread. */
function reading(service: Service, thread_id: string, filter: EventFilter = ALL) {
  const reader = serviceInternals(service).protocol.subscribe(thread_id, filter, EVERYTHING);
  const iterator = reader[Symbol.asyncIterator]();
  const events: ProtocolEvent[] = [];
  const done = (async () => {
    for (let step = await iterator.next(); !step.done; step = await iterator.next()) events.push(parse(step.value));
  })();
  return {
    events,
    ends: (count = 1) => until(() => events.filter(isRootEnd).length >= count, `end of ${count} runs`),
    async close() {
      await iterator.return?.();
      await done;
    },
  };
}

const isRootEnd = ({ method, params }: ProtocolEvent): boolean =>
  method === "lifecycle" && params.namespace.length === 0 && (params.data as { event: string }).event !== "running";

async function keptOf(service: Service, thread_id: string, filter: EventFilter = ALL): Promise<ProtocolEvent[]> {
  const events: ProtocolEvent[] = [];
  for await (const event of serviceInternals(service).protocol.kept(thread_id, filter, EVERYTHING))
    events.push(parse(event));
  return events;
}

const talker: AgentFunction = async function* () {
  yield "Hel";
  yield "lo";
};

/** Reads from a new thread, once the readers' flag is on it. */
async function opened(service: Service) {
  const { thread_id } = await service.threads.create();
  const live = reading(service, thread_id);
  return { thread_id, live };
}

describe("the events of a thread", () => {
  it("are live and the same when replayed", async () => {
    await using kit = await testService({ executor: fromFunctions({ talker }) });
    const { service } = kit;
    const { thread_id, live } = await opened(service);
    await service.runs.wait(thread_id, {
      assistant_id: "talker",
      input: { messages: [{ role: "user", content: "Hi" }] },
    });
    await live.ends();
    console.log(live.events.map((e) => `${e.seq} ${e.method} ${JSON.stringify(e.params)}`).join("\n"));
    assert.deepEqual(await keptOf(service, thread_id), live.events);
    await live.close();
  });
});
