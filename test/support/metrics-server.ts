/** The metrics of a server that has executed runs with models and tools. */
import type { FunctionJob } from "../../lib/mod.ts";
import { testService } from "../suite/kit.ts";

/** Text that labels must escape. */
const TOOL = 'say "hi"\\\n';

async function agent({ input, span, spend }: FunctionJob): Promise<string> {
  const { fail } = input as { readonly fail: boolean };
  await span("fake-1", () => spend({ tokens_in: 3, tokens_out: 4 }), { kind: "model" });
  await span(
    TOOL,
    () => {
      if (fail) throw new RangeError("no");
    },
    { kind: "tool" },
  );
  return "done";
}

/** Executes runs, some of which fail, and returns the text of `/metrics`. */
export async function createMetricsText(): Promise<{ text: string; runs: number; failed: number }> {
  await using service = await testService({ agents: { agent, 'odd "graph"\\': agent } });
  const [runs, failed] = [6, 2];
  for (let index = 0; index < runs; index++) {
    const assistant_id = index % 2 === 0 ? "agent" : 'odd "graph"\\';
    const body = JSON.stringify({ assistant_id, input: { fail: index < failed } });
    const response = await service.fetch("http://greenroom/runs/wait", { method: "POST", body });
    if (response.status !== 200) throw new Error(await response.text());
    await response.text();
  }
  const response = await service.fetch("http://greenroom/metrics");
  return { text: await response.text(), runs, failed };
}
