/** Adds the calls of agents to the resources of a service. Their code is loaded with the first call. */
import { createLazyModule } from "../environment.ts";
import type { Graphs, Untyped } from "../executor/agent-types.ts";
import type { AgentHandles } from "../handles/transport.ts";
import type { AgentCalls, AgentHandle, RunFrames, TypedRuns } from "../handles/types.ts";
import type { Resources } from "./resources.ts";

/** The resources of a service or of a caller, with the calls of agents. */
export interface AgentResources<Types extends Graphs = Record<string, Untyped>> extends Resources, AgentCalls<Types> {
  readonly runs: Resources["runs"] & TypedRuns<Types>;
}

/** Returns a copy of the resources with the calls of agents added. Their code is loaded with the first call. */
export function withAgentCalls<Caller extends Resources>(resources: Caller): Caller & AgentResources {
  const handles = createLazyModule<AgentHandles>({ getHandle: true }, async () =>
    (await import("./agent-calls.ts")).createAgentHandles(resources),
  );
  const load = async (name: string): Promise<AgentHandle> => await handles.getHandle(name);
  /** Returns the handle of an agent whose calls load the code of handles first. Checks nothing. */
  const agent = (name: string): AgentHandle => ({
    run: async (...call) => (await load(name)).run(...call),
    start: async (...call) => (await load(name)).start(...call),
    resume: async (...call) => (await load(name)).resume(...call),
    state: async (thread_id) => (await load(name)).state(thread_id),
    stream: (...call) => deferFrames(load(name).then((handle) => handle.stream(...call))),
  });
  const run: AgentResources["runs"]["run"] = (name, input, ...options) => agent(name).run(input, ...options);
  return { ...resources, agent, runs: { ...resources.runs, run } };
}

/**
 * Returns the frames of a stream that is still being opened, at once. Iterating them, `run` and `outcome` wait for it, and reject
 * if it fails.
 */
function deferFrames<Frames extends RunFrames>(frames: Promise<Frames>): Frames {
  const run = frames.then((opened) => opened.run);
  // Whoever awaits it gets the rejection too.
  run.catch(() => {});
  const deferred: RunFrames = {
    run,
    get outcome() {
      return frames.then((opened) => opened.outcome);
    },
    async *[Symbol.asyncIterator]() {
      yield* await frames;
    },
  };
  return deferred as Frames;
}
