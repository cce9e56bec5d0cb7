/** The empty steps of the bench as workflows of DBOS. `npm install` in this folder brings it. */
import { DBOS } from "@dbos-inc/dbos-sdk";

const steps = DBOS.registerWorkflow(
  async (count) => {
    for (let i = 0; i < count; i++) await DBOS.runStep(async () => null, { name: `step ${i}` });
  },
  { name: "steps" },
);

export async function openDbos(systemDatabaseUrl) {
  DBOS.setConfig({ name: "bench", systemDatabaseUrl, logLevel: "error", runAdminServer: false });
  await DBOS.launch();
  return { empty: steps, call: () => steps(1), close: () => DBOS.shutdown() };
}
