/** Who may answer the interrupts of agents: people, and clients that are models only where the host allows it. */
import type { GraphInfo } from "../../executor/contract.ts";
import { getPublicBaseUrl } from "../../options.ts";
import type { RequestContext } from "../route.ts";

type ServiceContext = Pick<RequestContext, "service">;
/** An assistant, or what else names the graph that a run would execute. */
type GraphReference = Pick<GraphInfo, "graph_id">;

/** The settings come from the host alone: clients write the metadata of assistants. */
const findGraph = ({ service }: ServiceContext, { graph_id }: GraphReference): GraphInfo | undefined =>
  service.options.executor.graphs().find((info) => info.graph_id === graph_id);

/** True if the model that called the agent as a tool of MCP may answer its interrupts. */
export const canModelAnswer = (context: ServiceContext, agent: GraphReference): boolean =>
  findGraph(context, agent)?.mcp?.model_may_answer === true;

/** True if a client of A2A may answer approvals of the agent. */
export const canCallerApprove = (context: ServiceContext, agent: GraphReference): boolean =>
  findGraph(context, agent)?.a2a?.caller_may_approve === true;

/** The address at which a person can answer the interrupts of a thread; null without the studio or `public_base_url`. */
export function findAnswerUrl({ handler, service }: RequestContext, thread_id: string): string | null {
  const base = handler.hasStudio ? getPublicBaseUrl(service.options) : undefined;
  return base === undefined ? null : `${base}/studio/threads/${thread_id}`;
}
