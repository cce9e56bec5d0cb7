import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { readConfig } from "../../../adapters/standalone/config.ts";
import { loadGraphs } from "../../../adapters/standalone/modules.ts";
import { answerText, asker as askerOfA2a, say as message, readTask } from "../../lib/http/endpoints/a2a/a2a.harness.ts";
import { asker as askerOfMcp, readText, readThreadId } from "../../lib/http/endpoints/mcp/mcp.harness.ts";
import { start, waitForUrl } from "../../support/programs.ts";
import { createProject, graphs, serve } from "./config.harness.ts";

describe("settings of a configuration file", () => {
  it("lets models answer the interrupts of the named graphs, and of no other", async () => {
    using folder = createProject({
      graphs: {
        closed: { path: "./src/agents.ts:asks" },
        open: { path: "./src/agents.ts:asks", mcp: { model_may_answer: true }, a2a: { caller_may_approve: true } },
        graph: { path: "./src/graphs.ts:asks", mcp: { model_may_answer: true } },
      },
    });
    await using program = serve(folder.path);
    const ask = askerOfMcp(fetch, `${await waitForUrl(program)}/mcp`);
    for (const [name, text] of [
      ["closed", /Only a person can answer/],
      ["open", /^Got yes$/],
      ["graph", /^Got yes$/],
    ] as const) {
      const { result } = await ask("tools/call", { name, arguments: { messages: [] } });
      const again = { name, arguments: { thread_id: readThreadId(result), resume: "yes" } };
      assert.match(readText((await ask("tools/call", again)).result), text);
    }
    const answers: string[] = [];
    for (const name of ["closed", "open"]) {
      const say = askerOfA2a(fetch, await waitForUrl(program));
      const { id: taskId, contextId } = readTask(await say(name, "SendMessage", message("Hi")));
      const { error, ...answer } = await say(name, "SendMessage", message("yes", { taskId, contextId }));
      answers.push(error.code === undefined ? answerText(readTask({ error, ...answer })) : String(error.code));
    }
    assert.deepEqual(answers, ["-32004", "Got yes"]);
    assert.equal(await program.kill("SIGTERM"), 0);
  });

  it("requires resume values by id for the named graphs, and for no other", async () => {
    const asks = { path: "./src/agents.ts:asks" };
    using folder = createProject({ graphs: { any: asks, named: { ...asks, resume: "by_id" } } });
    await using program = serve(folder.path);
    const url = await waitForUrl(program);
    const post = async (path: string, body: object): Promise<{ status: number; text: string }> => {
      const headers = { "content-type": "application/json" };
      const response = await fetch(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
      return { status: response.status, text: await response.text() };
    };
    for (const [assistant_id, expected] of [
      ["any", 200],
      ["named", 422],
    ] as const) {
      const { thread_id } = JSON.parse((await post("/threads", {})).text) as { thread_id: string };
      const wait = (body: object) => post(`/threads/${thread_id}/runs/wait`, { assistant_id, ...body });
      await wait({ input: {} });
      const { status, text } = await wait({ command: { resume: "yes" } });
      assert.equal(status, expected);
      if (expected === 422) assert.match(text, /takes answers by interrupt id only; open: [0-9a-f]{32}/);
    }
    assert.equal(await program.kill("SIGTERM"), 0);
  });

  it("sets the attempts, the timeout and the time to stop of a graph", async () => {
    const settings = { max_attempts: 1, timeout_ms: 300, abandon_ms: 200 };
    const paths = { plain: "./src/agents.ts:sleeps", builder: "./src/graphs.ts:builder", made: "./src/graphs.ts:make" };
    const config = {
      graphs: Object.fromEntries(Object.entries(paths).map(([id, path]) => [id, { path, ...settings }])),
    };
    for (const name of ["greenroom.json", "langgraph.json"]) {
      const settings = { ...config.graphs.made, factory: true };
      using folder = createProject({ graphs: { ...config.graphs, made: settings } }, name);
      const { graphs: entries, file } = readConfig(join(folder.path, name));
      const { executor, problems } = await loadGraphs(entries, file);
      assert.deepEqual(problems, []);
      const infos = executor
        .graphs()
        .map(({ graph_id, max_attempts, timeout_ms, abandon_ms }) => [graph_id, max_attempts, timeout_ms, abandon_ms]);
      assert.deepEqual(
        infos,
        Object.keys(paths).map((id) => [id, 1, 300, 200]),
      );
    }
    using folder = createProject({
      graphs: {
        ...config.graphs,
        made: { ...config.graphs.made, factory: true },
        once: { path: "./src/agents.ts:rests", max_attempts: 1 },
      },
    });
    interface Run {
      readonly run_id: string;
      readonly thread_id: string;
      readonly status: string;
    }
    const ask = async (url: string, body?: object): Promise<Run> => {
      const response = await fetch(url, body === undefined ? {} : { method: "POST", body: JSON.stringify(body) });
      return (await response.json()) as Run;
    };
    const startRun = (url: string, assistant_id: string): Promise<Run> => {
      const body = { assistant_id, input: { messages: "Hi" }, if_not_exists: "create" };
      return ask(`${url}/threads/${crypto.randomUUID()}/runs`, body);
    };
    const waitForEnd = async (url: string, { thread_id, run_id }: Run): Promise<string> => {
      const at = `${url}/threads/${thread_id}/runs/${run_id}`;
      await (await fetch(`${at}/join`)).text();
      return (await ask(at)).status;
    };
    let cut: Run;
    {
      await using program = start("server.ts", ["--port", "0"], { cwd: folder.path });
      const url = await waitForUrl(program);
      for (const id of Object.keys(paths)) assert.equal(await waitForEnd(url, await startRun(url, id)), "timeout", id);
      cut = await startRun(url, "once");
      await program.printed(/resting/);
      await program.kill("SIGKILL");
    }
    await using program = start("server.ts", ["--port", "0"], { cwd: folder.path });
    assert.equal(await waitForEnd(await waitForUrl(program), cut), "error");
    assert.doesNotMatch(program.output(), /resting/);
  });

  it("serves agents that call the server, log and describe themselves, and runs the middleware of an application", async () => {
    using folder = createProject(
      {
        graphs: { calls: { path: "./src/calls.ts:graph", description: "Calls the server" } },
        http: { app: "./src/hono.ts:app", middleware_order: "auth_first" },
        auth: { path: "./src/auth.ts:auth" },
      },
      "langgraph.json",
    );
    await using program = serve(folder.path);
    const url = await waitForUrl(program);
    await program.printed(/"message":"module loaded".*"at":"start"/);
    assert.doesNotMatch(program.output(), /without effect/);
    const headers = { authorization: "Bearer ann" };
    const ask = async (path: string, body?: object, requestHeaders: HeadersInit = headers): Promise<Response> =>
      await fetch(`${url}${path}`, {
        headers: requestHeaders,
        ...(body ? { method: "POST", body: JSON.stringify(body) } : {}),
      });
    const { said } = (await (await ask("/runs/wait", { assistant_id: "calls", input: {} })).json()) as { said: string };
    assert.equal((await ask(`/threads/${said}`)).status, 200);
    await program.printed(new RegExp(`"made":"${said}","run_id":"[^"]+","thread_id":"[^"]+"`));
    const assistant = (await (await ask("/assistants/calls")).json()) as { description: string };
    assert.equal(assistant.description, "Calls the server");
    const schemas = (await (await ask("/assistants/calls/schemas")).json()) as { state_schema: { properties: object } };
    assert.deepEqual(Object.keys(schemas.state_schema.properties), ["said"]);
    assert.equal((await ask("/info")).headers.get("x-app"), "mine");
    assert.equal((await ask("/threads", {}, {})).headers.get("x-app"), null);
    assert.equal(await (await ask("/count")).text(), "1");
    assert.equal((await ask("/count", undefined, {})).status, 500);
    assert.equal(await program.kill("SIGTERM"), 0);
  });

  it("reports invalid settings of a graph", () => {
    using folder = createProject({
      graphs: {
        a: {
          path: "./src/agents.ts:seen",
          max_attempts: 0,
          timeout_ms: "1 minute",
          abandon_ms: 1.5,
          factory: 1,
          attempts: 1,
          description: 1,
          resume: "by_name",
          mcp: { model_may_answer: "yes" },
          a2a: { caller_may_aprove: true },
        },
      },
    });
    assert.deepEqual(readConfig(join(folder.path, "greenroom.json")).problems, [
      "graphs.a.max_attempts: must be a whole number from 1 to 1000000000",
      "graphs.a.timeout_ms: must be a whole number from 1 to 2147483647",
      "graphs.a.abandon_ms: must be a whole number from 1 to 2147483647",
      "graphs.a.factory: must be true or false",
      "graphs.a.attempts: unknown key",
      "graphs.a.description: must be a text",
      "graphs.a.resume: must be one of by_id",
      "graphs.a.mcp.model_may_answer: must be true or false",
      "graphs.a.a2a.caller_may_aprove: unknown option; did you mean caller_may_approve?",
    ]);
  });

  it("logs a workspace or project that it creates because none has the name", async () => {
    using folder = createProject({ graphs, deployment: { workspace: "Support", project: "Bots" } });
    const readFindings = async (env: Record<string, string> = {}): Promise<readonly (readonly string[])[]> => {
      await using program = start("server.ts", ["--port", "0"], { cwd: folder.path, env });
      await waitForUrl(program);
      const ids = /^Organization \S+, workspace (\S+), project (\S+)$/m.exec(program.output()) ?? [];
      return [...program.output().matchAll(/^\{.*"level":"info".*\}$/gm)].map(([line]) => {
        const { message, name, workspace_id, project_id } = JSON.parse(line) as Record<string, string>;
        assert.equal(workspace_id ?? project_id, workspace_id ? ids[1] : ids[2]);
        return [String(message), String(name)];
      });
    };
    const workspace = "created the workspace of deployment.workspace: none had this name";
    const createdNotice = "created the project of deployment.project: none had this name";
    assert.deepEqual(await readFindings(), [
      [workspace, "Support"],
      [createdNotice, "Bots"],
    ]);
    assert.deepEqual(await readFindings(), []);
    const deployment = { workspace: "Support", project: "Bosts" };
    writeFileSync(join(folder.path, "greenroom.json"), JSON.stringify({ graphs, deployment: deployment }));
    assert.deepEqual(await readFindings(), [[createdNotice, "Bosts"]]);
    // Those accounts are in memory.
    assert.deepEqual(await readFindings({ GREENROOM_API_KEYS: "k".repeat(32) }), []);
  });

  it("has its options validated by the service, under their keys in the file", async () => {
    for (const [config, ...says] of [
      [
        {
          auth: { path: "./src/auth.ts:odd" },
          store: { ttl: { default_ttl: 0 }, index: { dims: 0, embed: "./src/embed.ts:embed", model: "x" } },
          checkpointer: { ttl: { strategy: "forget" } },
          crons: { often: true },
          http: {
            cors: { allow_origins: ["app.example"], allow_origin_regex: "(", allow_header: [] },
            configurable_headers: { include: ["x"] },
            disable_threads: "yes",
            disable_everything: true,
          },
        },
        /auth\.path\.on\.threads:fly: there is no such event/,
        /store\.ttl\.default_ttl: must be a number above 0/,
        /store\.index\.dims: must be/,
        /store\.index\.model: unknown option/,
        /checkpointer\.ttl\.strategy: must be one of/,
        /crons\.often: unknown option/,
        /http\.cors\.allow_origins: must be a list of origins/,
        /http\.cors\.allow_origin_regex: is not a valid regular expression/,
        /http\.cors\.allow_header: unknown option/,
        /http\.configurable_headers\.include: unknown option/,
        /http\.disable_threads: must be true or false/,
        /http\.disable_everything: unknown option/,
      ],
      [{ auth: { mode: "api_key", path: "./src/auth.ts:auth" } }, /auth\.mode: must be custom beside auth\.path/],
      [{ auth: { mode: "custom" } }, /auth\.path: mode custom needs it/],
      [{ onRunFinished: "x" }, /onRunFinished: unknown key/],
    ] as readonly (readonly [object, ...RegExp[]])[]) {
      using folder = createProject({ graphs, ...config });
      await using program = serve(folder.path);
      assert.equal(await program.ended, 1);
      for (const part of says) assert.match(program.output(), part);
      assert.doesNotMatch(program.output(), /^\s+at /m);
    }
  });
});
