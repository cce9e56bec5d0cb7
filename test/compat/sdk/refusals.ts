/** The requests that are refused. */
import assert from "node:assert/strict";
import { createThread, type Suite } from "./bench.ts";

export function refusals({ describe, it, name, bench }: Suite): void {
  describe(`${name}: routes that are not built`, () => {
    it("respond with 501 and name what is missing", async () => {
      await using at = await bench();
      const { client } = at;
      const id = await createThread(client);
      const response = await at.send("/ui/agent", { method: "POST" });
      assert.equal(response.status, 501);
      assert.match(((await response.json()) as { detail: string }).detail, /not built yet/);
      assert.deepEqual(await client.runs.list(id), []);
      assert.equal(await client.threads.count(), 1);
    });
  });
}
