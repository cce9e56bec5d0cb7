/** The permission to answer interrupts of agents: for people, and clients that are models only where the host allows it. */
import type { GraphInfo } from "../../executor/contract.ts";
import { getPublicBaseUrl } from "../../options.ts";
import type { RequestContext } from "../route.ts";

type ServiceContext = Pick<RequestContext, "service">;
/** An object that names the graph of a run, such as an assistant. */
type GraphReference = Pick<GraphInfo, "graph_id">;

/** The settings come from the host alone: clients write the metadata of assistants. */
const findGraph = ({ service }: ServiceContext, { graph_id }: GraphReference): GraphInfo | undefined =>
  service.options.executor.graphs().find((info) => info.graph_id === graph_id);

/** Returns true if a model that calls the agent as an MCP tool may answer its interrupts. */
export const canModelAnswer = (context: ServiceContext, agent: GraphReference): boolean =>
  findGraph(context, agent)?.mcp?.model_may_answer === true;

/** Returns true if an A2A client may answer approvals of the agent. */
export const canCallerApprove = (context: ServiceContext, agent: GraphReference): boolean =>
  findGraph(context, agent)?.a2a?.caller_may_approve === true;

/**
 * Returns the URL in the studio at which a person can answer the interrupts of a thread. Returns null without the
 * studio or `public_base_url`.
 */
export function findAnswerUrl({ handler, service }: RequestContext, thread_id: string): string | null {
  const base = handler.hasStudio ? getPublicBaseUrl(service.options) : undefined;
  return base === undefined ? null : `${base}/studio/threads/${thread_id}`;
}
