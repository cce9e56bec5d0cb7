/** Traces on a file after kill -9. */
import { it } from "node:test";
import { checkKilledModelCall, checkKilledStep, createSite } from "./traces-crash.harness.ts";

it("the trace of a durable function that is killed has its attempts with their links, and two gaps that only waiting reaches over", async () => {
  using site = createSite();
  await checkKilledStep(site);
});

it("the trace of a graph that is killed in a model call shows the spans that were stored, and the open call as lost", async () => {
  using site = createSite();
  await checkKilledModelCall(site);
});
