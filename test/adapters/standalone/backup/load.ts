/** A service under load in this process, and the responses and webhooks that its clients received. */

import { createHandler, type Handler } from "../../../../lib/http/handler.ts";
import { createService, type FunctionJob, fromFunctions, type JsonObject, type Service } from "../../../../lib/mod.ts";
import type { Storage } from "../../../../lib/storage/types.ts";

/** The ends of runs as their receiver heard of them: the ids of the deliveries, by run. */
export type NotificationsByRun = Map<string, Set<string>>;

export interface Site extends AsyncDisposable {
  readonly service: Service;
  readonly handler: Handler;
  /** Lets the runs of `gated` go on. */
  open(): void;
  call<Body>(method: string, path: string, body?: unknown): Promise<{ readonly status: number; readonly body: Body }>;
}

/** The number of messages that a successful run adds after its input. */
export const STEPS = 2;
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** A service on the storage, whose agents leave one message a step, with an id that is the same in every attempt. */
export async function serve(storage: Storage, notifications: NotificationsByRun): Promise<Site> {
  let opened = false;
  const message = ({ run_id }: FunctionJob, step: number | string): JsonObject => ({
    messages: [{ type: "ai", id: `${run_id}/${step}`, content: `${run_id}/${step}` }],
  });
  async function* steps(job: FunctionJob): AsyncGenerator<unknown> {
    for (let step = 0; step < STEPS; step++) {
      job.emit({ step });
      yield message(job, step);
      await pause(2);
    }
  }
  async function* createGatedAgent(job: FunctionJob): AsyncGenerator<unknown> {
    yield message(job, 0);
    while (!opened && !job.signal.aborted) await pause(5);
    yield message(job, 1);
  }
  async function* createAskingAgent(job: FunctionJob): AsyncGenerator<unknown> {
    yield message(job, 0);
    yield job.interrupt({ run: job.run_id });
  }
  async function* createFailingAgent(job: FunctionJob): AsyncGenerator<unknown> {
    yield message(job, 0);
    throw new Error("It was told to fail");
  }
  async function* slow({ signal }: FunctionJob): AsyncGenerator<unknown> {
    while (!signal.aborted) await pause(5);
    yield "late";
  }
  const service = await createService({
    storage,
    // Where leases are waited for.
    ...(storage.single_process ? {} : { worker: { lease_ms: 3_000 } }),
    executor: fromFunctions({
      steps,
      gated: createGatedAgent,
      asking: createAskingAgent,
      failing: createFailingAgent,
      slow: { agent: slow, timeout_ms: 20 },
    }),
    public_base_url: "http://127.0.0.1",
    webhooks: {
      delivery: { schedule_ms: [10, 10, 10] },
      async loopback(request) {
        const { run_id } = (await request.json()) as { readonly run_id: string };
        const ids = notifications.get(run_id) ?? new Set();
        notifications.set(run_id, ids.add(request.headers.get("webhook-id") ?? "none"));
        // Every second delivery comes again.
        return new Response(null, { status: ids.size === 1 && run_id.charCodeAt(0) % 2 ? 500 : 204 });
      },
    },
    environment: { log() {} },
  });
  const handler = createHandler(service);
  return {
    service,
    handler,
    open() {
      opened = true;
    },
    async call<Body>(method: string, path: string, body?: unknown) {
      const init = body === undefined ? { method } : { method, body: JSON.stringify(body) };
      const response = await handler(new Request(`http://greenroom${path}`, init));
      return { status: response.status, body: (await response.json().catch(() => null)) as Body };
    },
    [Symbol.asyncDispose]: () => service.stop(0),
  };
}

/** A run that was answered with 2xx. */
export interface Acknowledged {
  readonly run_id: string;
  readonly thread_id: string;
}

export interface Load {
  readonly acknowledged: readonly Acknowledged[];
  /** Ends the clients, and resolves with them. */
  end(): Promise<void>;
}

/** Starts clients that create runs of all kinds on their own threads, without a pause. */
export function startLoad(site: Site, clients: number): Load {
  const acknowledged: Acknowledged[] = [];
  let ending = false;
  const kinds = ["steps", "steps", "asking", "failing", "steps", "slow"];
  const strategies = ["enqueue", "enqueue", "rollback", "enqueue", "interrupt"];
  async function client(at: number): Promise<void> {
    const { thread_id } = (await site.call<Acknowledged>("POST", "/threads", {})).body;
    for (let n = 0; !ending; n++) {
      const created = await site.call<Acknowledged>("POST", `/threads/${thread_id}/runs`, {
        assistant_id: kinds[(n + at) % kinds.length],
        input: { messages: [{ type: "human", id: `${thread_id}/${n}`, content: `${n}` }] },
        multitask_strategy: strategies[(n * 3 + at) % strategies.length],
        stream_mode: ["custom", "updates"],
        stream_resumable: true,
        metadata: { n },
        ...(n % 2 ? { webhook: "/told" } : {}),
        ...(n % 3 ? {} : { feedback_keys: ["helpful"] }),
      });
      if (created.status === 200) {
        const { run_id } = created.body;
        acknowledged.push({ run_id, thread_id });
        // Now and then the next one comes while this one waits or runs.
        if (n % 3) await site.call("GET", `/threads/${thread_id}/runs/${run_id}/join`);
      }
    }
  }
  const all = Promise.all(Array.from({ length: clients }, (_, at) => client(at)));
  return {
    acknowledged,
    async end() {
      ending = true;
      await all;
    },
  };
}

/** The acknowledged runs and the notifications at the start of a copy. */
export interface CopyEvidence {
  readonly acknowledged: readonly Acknowledged[];
  readonly notifications: NotificationsByRun;
}

/**
 * Puts the service under load and takes copies of its database meanwhile, each by a call of `copy`, when one run executes, one waits
 * behind it, one is to start much later, and some have ended in every way.
 */
export async function copyUnderLoad(
  site: Site,
  notifications: NotificationsByRun,
  count: number,
  copy: (at: number) => Promise<void>,
): Promise<CopyEvidence[]> {
  const load = startLoad(site, 6);
  try {
    const { thread_id } = (await site.call<Acknowledged>("POST", "/threads", {})).body;
    const create = async (assistant_id: string, n: number, extraFields: object = {}): Promise<Acknowledged> => {
      const input = { messages: [{ type: "human", id: `${thread_id}/${n}`, content: `${n}` }] };
      const run = { assistant_id, input, metadata: { n }, stream_resumable: true, webhook: "/told", ...extraFields };
      const { run_id } = (await site.call<Acknowledged>("POST", `/threads/${thread_id}/runs`, run)).body;
      return { run_id, thread_id };
    };
    const requests = [
      await create("gated", 0, { durability: "sync" }),
      await create("steps", 1),
      await create("steps", 2, { after_seconds: 86_400 }),
    ];
    const every = async (): Promise<boolean> =>
      Object.values((await site.service.metrics()).worker.ended).every((count) => count > 0);
    while (load.acknowledged.length < 40 || !(await every())) await pause(10);
    const copies: CopyEvidence[] = [];
    for (let at = 0; at < count; at++) {
      const acknowledged = [...load.acknowledged, ...requests];
      await copy(at);
      copies.push({
        acknowledged,
        notifications: new Map([...notifications].map(([run_id, ids]) => [run_id, new Set(ids)])),
      });
    }
    return copies;
  } finally {
    await load.end();
  }
}
