/**
 * The empty steps of the bench as a workflow of Vercel's local world, which keeps JSON files. `npm install` in this folder brings it; its
 * compiler makes the handlers that the local queue calls by HTTP. Needs Node.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";

const source = `
async function empty(ends) {
  "use step";
  if (ends !== null) globalThis.benchEnds(ends);
  return null;
}

export async function steps(count, key) {
  "use workflow";
  for (let i = 1; i <= count; i++) await empty(i === count ? key : null);
}
`;

export async function openWorkflow() {
  const folder = mkdtempSync(join(tmpdir(), "greenroom-bench-workflow-"));
  const built = join(folder, ".well-known/workflow/v1");
  mkdirSync(join(folder, "workflows"));
  writeFileSync(join(folder, "package.json"), '{"type":"module"}');
  writeFileSync(join(folder, "workflows/bench.js"), source);
  symlinkSync(join(import.meta.dirname, "node_modules"), join(folder, "node_modules"));
  execFileSync(join(folder, "node_modules/.bin/workflow"), ["build", "--target", "standalone"], { cwd: folder });
  writeFileSync(join(built, "package.json"), '{"type":"commonjs"}');

  const require = createRequire(import.meta.url);
  const handlers = {};
  const server = createServer(async (request, response) => {
    const body = await Array.fromAsync(request);
    const { method, headers, url } = request;
    const handler = handlers[new URL(url, "http://localhost").pathname.split("/").at(-1)];
    const httpRequest = new Request(`http://127.0.0.1${url}`, { method, headers, body: Buffer.concat(body) });
    const answer = await handler.POST(httpRequest);
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    response.end(Buffer.from(await answer.arrayBuffer()));
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  Object.assign(process.env, {
    WORKFLOW_TARGET_WORLD: "local",
    WORKFLOW_LOCAL_DATA_DIR: join(folder, "data"),
    WORKFLOW_LOCAL_BASE_URL: `http://127.0.0.1:${server.address().port}`,
  });
  for (const name of ["flow", "step"]) handlers[name] = require(join(built, `${name}.js`));
  const { start } = await import("workflow/api");

  // Its last step tells: the result of a run is looked for once a second.
  const ends = new Map();
  globalThis.benchEnds = (key) => ends.get(key)?.();
  let keys = 0;
  const empty = async (count) => {
    const key = ++keys;
    const ended = new Promise((resolve) => ends.set(key, resolve));
    await start({ workflowId: "workflow//./workflows/bench//steps" }, [count, key]);
    await ended;
    ends.delete(key);
  };
  return {
    empty,
    call: () => empty(1),
    close() {
      server.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
