import { defineConfig } from "greenroom/app";
import { agent } from "./src/agent.ts";
import { graph } from "./src/graph.ts";

enum Pending {
  Few = 20,
}

const config = defineConfig({
  agents: { agent: { agent, max_attempts: 1 }, graph: { graph: () => graph } },
  limits: { pending: Pending.Few },
  steps: { entries: 100 },
});
export default config;
