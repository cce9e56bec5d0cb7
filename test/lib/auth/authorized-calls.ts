/** Lists the calls of a service for one caller, with the ids that the caller passes. */
import type { ServiceError } from "../../../lib/errors.ts";
import type { AgentResources } from "../../../lib/service/agent-resources.ts";
import type { RequestResources, Resources } from "../../../lib/service/resources.ts";
import type { Caller } from "../../../lib/storage/identity.ts";

/** Ids of one tenant's rows. `run_id` is a finished run on a thread, and the stateless run has ended too. */
export interface ResourceIds {
  readonly thread_id: string;
  readonly run_id: string;
  readonly stateless_run_id: string;
  readonly checkpoint_id: string;
  readonly assistant_id: string;
  readonly cron_id: string;
  readonly key: string;
  /** A mark in the metadata of all of them. */
  readonly mark: string;
  /** Rows of the platform: a run with feedback, on the thread or stateless, and the workspace of the usage reports. */
  readonly trace_id: string;
  readonly id: string;
  readonly token_id: string;
  readonly workspace_id: string;
}

export const AGENT = { assistant_id: "agent", input: { said: 1 } };
export const CRON = { schedule: "0 0 1 1 *" };

/** A call of an authorized resource with ids from its caller. `exception` is the error for ids of another tenant. */
interface Call {
  readonly call: MakeCall;
  readonly exception?: string;
}

type MakeCall = (resources: Resources, ids: ResourceIds, by: Caller) => unknown;

/** Closes a reader. The tests of the routes read its items. */
const leaveReader = async (reader: PromiseLike<{ leave(): void }> | { leave(): void }): Promise<null> => {
  (await reader).leave();
  return null;
};
/** Returns the calls of the agent, which make other calls of the same caller. */
const getAgent = (resources: Resources) => (resources as AgentResources).agent("agent");
/** Ignores that the thread has no open interrupt, which is said only of the caller's own threads. */
function ignoreNoInterrupt(error: ServiceError): void {
  if (error.reason !== "no_open_interrupt") throw error;
}
const done = async (call: Promise<unknown>): Promise<null> => call.then(() => null);
/** Sends an event to a thread without a durable function. */
const unawaited = (call: Promise<unknown>): Promise<unknown> =>
  call.catch((error: ServiceError) => {
    if (error.reason !== "event_not_awaited") throw error;
  });
const only = { limit: 5, offset: 0 };
const BLANK = { value: null, comment: null, correction: null };
const RECORD = { key: "k", score: 1, source: "api", source_metadata: null, extra: null, ...BLANK };
const RANGE = { start: "2026-01-01T00:00:00Z", end: "2028-01-01T00:00:00Z" };

const PUSH = { config_id: "c", url: "https://hooks.example/", terms: { version: "1.0" as const } };
const toTaskAddress = ({ thread_id, run_id }: ResourceIds) => ({ thread_id, task_id: run_id });

const except = (exception: string, call: MakeCall): Call => ({ exception, call });

export const CALLS: Readonly<Record<string, Call | MakeCall>> = {
  "assistants.create": except("conflict", ({ assistants }, { assistant_id }) =>
    done(assistants.create({ graph_id: "agent", assistant_id, if_exists: "do_nothing" })),
  ),
  "assistants.get": ({ assistants }, ids) => assistants.get(ids.assistant_id),
  "assistants.update": ({ assistants }, ids) => done(assistants.update(ids.assistant_id, { name: "new" })),
  "assistants.delete": ({ assistants }, ids) => assistants.delete(ids.assistant_id, { delete_threads: true }),
  "assistants.search": ({ assistants }, { mark }) => assistants.search({ metadata: { mark } }),
  "assistants.count": ({ assistants }, { mark }) => assistants.count({ metadata: { mark } }),
  "assistants.versions": ({ assistants }, ids) => assistants.versions(ids.assistant_id),
  "assistants.setLatest": ({ assistants }, ids) => done(assistants.setLatest(ids.assistant_id, 1)),
  "assistants.graph": ({ assistants }, ids) => assistants.graph(ids.assistant_id),
  "assistants.schemas": ({ assistants }, ids) => assistants.schemas(ids.assistant_id),
  "assistants.subgraphs": ({ assistants }, ids) => assistants.subgraphs(ids.assistant_id),

  "threads.create": except("conflict", ({ threads }, { thread_id }) =>
    done(threads.create({ thread_id, if_exists: "do_nothing" })),
  ),
  "threads.get": ({ threads }, ids) => threads.get(ids.thread_id),
  "threads.update": ({ threads }, ids) => done(threads.update(ids.thread_id, { metadata: { a: 1 } })),
  "threads.delete": ({ threads }, ids) => threads.delete(ids.thread_id),
  "threads.copy": ({ threads }, ids) => done(threads.copy(ids.thread_id)),
  "threads.prune": ({ threads }, ids) => threads.prune([ids.thread_id]),
  "threads.search": ({ threads }, { thread_id }) => threads.search({ ids: [thread_id] }),
  "threads.searchEach": async ({ threads }, { thread_id }) => {
    const fields: unknown[] = [];
    await threads.searchEach(
      { ids: [thread_id] },
      { begin: (page) => void fields.push(page), add: async (read) => void fields.push(await read()) },
    );
    return fields;
  },
  "threads.count": ({ threads }, { mark }) => threads.count({ metadata: { mark } }),
  "threads.list": ({ threads }, { mark }) => threads.list({ metadata: { mark } }),
  "threads.inbox": ({ threads }, { assistant_id }) => threads.inbox({ assistant_id }).then(({ total }) => total),
  "threads.state": ({ threads }, ids) => threads.state(ids.thread_id),
  "threads.stateAt": ({ threads }, { thread_id, checkpoint_id }) => threads.stateAt(thread_id, { checkpoint_id }),
  "threads.updateState": ({ threads }, ids) => done(threads.updateState(ids.thread_id, { values: { said: 2 } })),
  "threads.patchState": ({ threads }, ids) => threads.patchState(ids.thread_id, { a: 1 }),
  "threads.history": ({ threads }, ids) => threads.history(ids.thread_id),
  "threads.idOf": ({ threads }, ids) => threads.idOf(ids.thread_id),
  "threads.historyEach": async ({ threads }, ids) => {
    const states: unknown[] = [];
    await threads.historyEach(ids.thread_id, {}, async (read) => void states.push(...(await read())));
    return states;
  },
  "threads.storage": ({ threads }, ids) => threads.storage(ids.thread_id),
  "threads.stream": ({ threads }, ids) => leaveReader(threads.stream(ids.thread_id)),
  // Events wait for their thread.
  "threads.events": async ({ threads }, ids) => {
    const events = threads.events(ids.thread_id, { channels: ["values"] })[Symbol.asyncIterator]();
    const first = await Promise.race([events.next(), new Promise((resolve) => setTimeout(resolve, 50, "nothing"))]);
    await events.return?.();
    return first === "nothing" ? first : "events";
  },
  "threads.command": ({ threads }, ids) => threads.command(ids.thread_id, { id: 1, method: "state.get" }),

  "runs.create": ({ runs }, { thread_id, assistant_id }) => done(runs.create(thread_id, { ...AGENT, assistant_id })),
  "runs.stream": ({ runs }, { thread_id }) => leaveReader(runs.stream(thread_id, AGENT).then(({ frames }) => frames)),
  "runs.run": (resources, { thread_id }) =>
    done((resources as AgentResources).runs.run("agent", AGENT.input, { thread_id })),
  "agent.run": (resources, { thread_id }) => done(getAgent(resources).run(AGENT.input, { thread_id })),
  "agent.start": (resources, { thread_id }) => done(getAgent(resources).start(AGENT.input, { thread_id })),
  "agent.resume": (resources, { thread_id }) =>
    done(getAgent(resources).resume(thread_id, "yes")).catch(ignoreNoInterrupt),
  "agent.state": (resources, { thread_id }) => done(getAgent(resources).state(thread_id)),
  "agent.stream": (resources, { thread_id }) => done(getAgent(resources).stream(AGENT.input, { thread_id }).run),
  "runs.wait": ({ runs }, { assistant_id }) => done(runs.wait(null, { ...AGENT, assistant_id })),
  "runs.createBatch": ({ runs }, { assistant_id }) => done(runs.createBatch([AGENT, { ...AGENT, assistant_id }])),
  "runs.get": ({ runs }, ids) => runs.get(ids.thread_id, ids.run_id),
  "runs.list": ({ runs }, ids) => runs.list(ids.thread_id),
  "runs.delete": ({ runs }, ids) => runs.delete(ids.thread_id, ids.run_id),
  "runs.cancel": ({ runs }, ids) => runs.cancel(ids.thread_id, ids.run_id),
  "runs.cancelMany": ({ runs }, { thread_id, run_id }) => runs.cancelMany({ thread_id, run_ids: [run_id] }),
  "runs.join": ({ runs }, ids) => runs.join(ids.thread_id, ids.run_id).then(({ result }) => result),
  "runs.joinStream": ({ runs }, ids) =>
    leaveReader(runs.joinStream(null, ids.stateless_run_id).then(({ frames }) => frames)),
  "runs.search": ({ runs }, { thread_id }) => runs.search({ thread_id }),
  "runs.stats": ({ runs }) => done(runs.stats()),
  "runs.inspect": ({ runs }, ids) => runs.inspect(ids.run_id),
  "runs.permit": ({ runs }, { thread_id, assistant_id }) =>
    done((runs as RequestResources["runs"]).permit(thread_id, { ...AGENT, assistant_id })),
  "runs.rerun": ({ runs }, ids) => done(runs.rerun(ids.run_id)),
  "runs.send": ({ runs }, ids) => unawaited(runs.send(ids.thread_id, ids.run_id, "parcel", 1)),
  "runs.steps": ({ runs }, ids) => runs.steps(ids.thread_id, ids.run_id),
  "threads.send": ({ threads }, ids) => unawaited(threads.send(ids.thread_id, "parcel", 1)),
  "calls.send": (resources, ids) => unawaited((resources as RequestResources).calls.send(ids.thread_id, "parcel", 1)),
  "calls.sendToRun": (resources, ids) =>
    unawaited((resources as RequestResources).calls.sendToRun(ids.thread_id, ids.run_id, "parcel", 1)),
  "calls.steps": (resources, ids) => (resources as RequestResources).calls.steps(ids.thread_id, ids.run_id),

  "protocol.subscribe": (resources, ids) =>
    leaveReader((resources as RequestResources).protocol.subscribe(ids.thread_id, { channels: ["values"] })),
  "protocol.command": (resources, ids) =>
    (resources as RequestResources).protocol
      .command(ids.thread_id, { id: 1, method: "state.get" })
      .then(({ type }) => type),
  "protocol.open": async (resources, { thread_id }) => {
    const run = () => Promise.reject(new Error("no run is made"));
    const thread = await (resources as RequestResources).protocol.open(thread_id, run);
    return [await thread.count([{ channels: ["values"] }]), await thread.findRevocation()].map(
      (result) => result === null || result,
    );
  },

  "crons.create": ({ crons }, { thread_id, assistant_id }) => done(crons.create(thread_id, { ...CRON, assistant_id })),
  "crons.get": ({ crons }, ids) => crons.get(ids.cron_id),
  "crons.update": ({ crons }, ids) => done(crons.update(ids.cron_id, { enabled: false })),
  "crons.delete": ({ crons }, ids) => crons.delete(ids.cron_id),
  "crons.search": ({ crons }, { thread_id }) => crons.search({ thread_id }),
  "crons.count": ({ crons }, { thread_id }) => crons.count({ thread_id }),
  "crons.inspect": ({ crons }, ids) => crons.inspect(ids.cron_id),
  "crons.run": ({ crons }, ids) => done(crons.run(ids.cron_id)),
  "crons.preview": ({ crons }) => crons.preview({ schedule: "@yearly" }),

  "store.get": ({ store }, { key }) => store.get(["walk"], key),
  "store.put": except("forbidden", ({ store }, { key }) => store.put(["walk"], key, { owner: "bob" })),
  "store.putMany": except("forbidden", ({ store }, { key }) =>
    store.putMany([{ namespace: ["walk"], key, value: { owner: "bob" } }]),
  ),
  "store.delete": ({ store }, { key }) => store.delete(["walk"], key),
  "store.search": ({ store }, { mark }) => store.search(["walk"], { filter: { mark } }),
  "store.namespaces": ({ store }, { mark }) => store.namespaces({ prefix: ["walk", mark] }),

  "feedback.mintTokens": ({ feedback }, { trace_id: run_id }, by) =>
    done(feedback.mintTokens(by, [{ run_id, feedback_key: "k", config: null, expires_at: Date.now() + 60_000 }])),
  "feedback.listTokens": ({ feedback }, { trace_id: run_id }, by) => feedback.listTokens(by, { run_id, ...only }),
  "feedback.create": ({ feedback }, { trace_id: run_id }, by) => done(feedback.create(by, { run_id, ...RECORD })),
  "feedback.get": ({ feedback }, ids, by) => feedback.get(by, ids.id),
  "feedback.update": ({ feedback }, ids, by) => done(feedback.update(by, ids.id, { score: 2 })),
  "feedback.delete": ({ feedback }, ids, by) => feedback.delete(by, ids.id),
  "feedback.list": ({ feedback }, { trace_id }, by) => feedback.list(by, { run_ids: [trace_id], ...only }),
  "feedback.stats": ({ feedback }, { trace_id }, by) => feedback.stats(by, { run_ids: [trace_id] }),
  "feedback.scores": ({ feedback }, _ids, by) => done(feedback.scores(by, RANGE)),
  "feedback.links": ({ feedback }, _ids, by) => done(feedback.links(by)),
  "feedback.revokeLink": ({ feedback }, ids, by) => feedback.revokeLink(by, ids.token_id),

  "traces.get": ({ traces }, ids) => traces.get(ids.thread_id, ids.run_id),
  "traces.stream": ({ traces }, ids) => leaveReader(traces.stream(null, ids.stateless_run_id)),
  "traces.search": ({ traces }, { thread_id }) => traces.search({ thread_id }),
  "traces.delete": ({ traces }, ids) => traces.delete(ids.thread_id, ids.run_id),

  "webhooks.list": ({ webhooks }, { thread_id }) => webhooks.list({ thread_id }),
  "webhooks.get": ({ webhooks }, ids) => webhooks.get(ids.run_id),
  "webhooks.redeliver": ({ webhooks }, ids) => webhooks.redeliver(ids.run_id),
  "webhooks.setPush": ({ webhooks }, ids) => webhooks.setPush({ ...PUSH, ...toTaskAddress(ids), last_run: ids.run_id }),
  "webhooks.listPushes": ({ webhooks }, ids) => webhooks.listPushes(toTaskAddress(ids)),
  "webhooks.removePush": ({ webhooks }, ids) => webhooks.removePush({ ...toTaskAddress(ids), config_id: "c" }),
  "webhooks.notifyCancelled": ({ webhooks }, ids) => webhooks.notifyCancelled(toTaskAddress(ids)),
};
