/** Assistants, as a stock client has them. */
import assert from "node:assert/strict";
import { isObject } from "../../../lib/json.ts";
import { ABSENT, assertRefused, type Suite, UUID } from "./bench.ts";

export function assistants({ describe, it, name, bench }: Suite): void {
  describe(`${name}: assistants`, () => {
    it("exist by default for every graph, and have the graph's id as a second name", async () => {
      await using at = await bench();
      const { client } = at;
      const byGraph = await client.assistants.get("agent");
      assert.equal(byGraph.assistant_id, "fe096781-5601-53d2-b2f6-0d3403f7e9ca");
      assert.deepEqual(await client.assistants.get(byGraph.assistant_id), byGraph);
      assert.equal(byGraph.name, "agent");
      assert.equal(byGraph.version, 1);
      assert.deepEqual(byGraph.metadata, { created_by: "system" });
      const systemAssistants = await client.assistants.search({ metadata: { created_by: "system" }, limit: 100 });
      const graphs = systemAssistants.map((assistant) => assistant.graph_id).sort();
      assert.ok(graphs.includes("agent") && graphs.includes("chat"));
      assert.equal(new Set(graphs).size, graphs.length);
      await assertRefused(client.assistants.delete("agent"), 409, /default assistant/);
    });

    it("are created, changed, reset and deleted, version by version", async () => {
      await using at = await bench();
      const { client } = at;
      const created = await client.assistants.create({
        graphId: "agent",
        name: "First",
        description: "an assistant",
        context: { tone: "plain" },
        metadata: { team: "a", level: 1 },
      });
      assert.match(created.assistant_id, UUID);
      const { assistant_id: id } = created;
      assert.equal(created.version, 1);
      assert.deepEqual(created.context, { tone: "plain" });
      assert.ok(!Number.isNaN(Date.parse(created.created_at)));

      const second = await client.assistants.update(id, {
        config: { tags: ["x"], configurable: { color: "red" } },
        metadata: { level: 2 },
        name: "Second",
      });
      assert.equal(second.version, 2);
      assert.deepEqual(second.config, { tags: ["x"], configurable: { color: "red" } });
      assert.deepEqual(second.context, {}, "the configuration of a version is the request's alone");
      assert.deepEqual(second.metadata, { team: "a", level: 2 });
      assert.equal(second.description, "an assistant");
      assert.deepEqual(await client.assistants.get(id), second);

      const third = await client.assistants.update(id, { graphId: "chat" });
      assert.deepEqual([third.version, third.graph_id, third.name], [3, "chat", "Second"]);
      assert.deepEqual(third.config, second.config);

      const back = await client.assistants.setLatest(id, 1);
      assert.deepEqual([back.version, back.graph_id, back.name], [1, "agent", "First"]);
      assert.deepEqual([back.config, back.context, back.metadata], [created.config, created.context, created.metadata]);
      const fourth = await client.assistants.update(id, { name: "Fourth" });
      assert.deepEqual([fourth.version, fourth.context], [4, { tone: "plain" }]);

      const versions = await client.assistants.getVersions(id);
      assert.deepEqual(
        versions.map((version) => [version.version, version.name, version.graph_id]),
        [
          [4, "Fourth", "agent"],
          [3, "Second", "chat"],
          [2, "Second", "agent"],
          [1, "First", "agent"],
        ],
      );
      const page = await client.assistants.getVersions(id, { limit: 2, offset: 1 });
      assert.deepEqual(
        page.map((version) => version.version),
        [3, 2],
      );

      await client.assistants.delete(id);
      await assertRefused(client.assistants.get(id), 404, /not found/);
    });

    it("are found by graph, name and metadata, page by page", async () => {
      await using at = await bench();
      const { client } = at;
      const createdIds: string[] = [];
      for (const label of ["Alpha", "Beta", "Gamma"]) {
        const metadata = { group: "greek", nested: { label, more: true } };
        createdIds.push((await client.assistants.create({ graphId: "agent", name: label, metadata })).assistant_id);
      }
      const query = { metadata: { group: "greek" }, sortBy: "name", sortOrder: "asc" } as const;
      const first = await client.assistants.search({ ...query, limit: 2, includePagination: true });
      assert.deepEqual(
        first.assistants.map((assistant) => assistant.assistant_id),
        createdIds.slice(0, 2),
      );
      assert.equal(first.next, "2");
      const last = await client.assistants.search({ ...query, limit: 2, offset: 2, includePagination: true });
      assert.deepEqual(
        last.assistants.map((assistant) => assistant.name),
        ["Gamma"],
      );
      assert.equal(last.next, null);
      const selected = await client.assistants.search({ ...query, limit: 1, select: ["name", "version"] });
      assert.deepEqual(selected, [{ name: "Alpha", version: 1 }]);
      const nested = await client.assistants.search({ metadata: { nested: { label: "Beta" } } });
      assert.deepEqual(
        nested.map((assistant) => assistant.name),
        ["Beta"],
      );
      assert.equal(await client.assistants.count({ metadata: { group: "greek" } }), 3);
      assert.equal(await client.assistants.count({ graphId: "agent" }), 4);
      assert.equal(await client.assistants.count({ name: "ALPH" }), 1);
    });

    it("have a graph, schemas and subgraphs", async () => {
      await using at = await bench();
      const { client } = at;
      const drawn = await client.assistants.getGraph("chat");
      assert.deepEqual(drawn.nodes.map((node) => node.id).sort(), ["__end__", "__start__", "model"]);
      assert.deepEqual(drawn.edges.map((edge) => [edge.source, edge.target]).sort(), [
        ["__start__", "model"],
        ["model", "__end__"],
      ]);
      const inside = await client.assistants.getGraph("family", { xray: true });
      assert.ok(inside.nodes.some((node) => String(node.id).includes("inner")));
      const simple = await client.assistants.getGraph("agent");
      assert.ok(simple.nodes.some((node) => node.id === "agent"));

      for (const graph of ["agent", "chat"]) {
        const schemas = await client.assistants.getSchemas(graph);
        assert.equal(schemas.graph_id, graph);
        for (const key of ["input_schema", "output_schema", "state_schema", "config_schema"] as const) {
          assert.ok(schemas[key] === null || schemas[key] === undefined || isObject(schemas[key]), key);
        }
      }
      assert.deepEqual(Object.keys(await client.assistants.getSubgraphs("family")), ["child"]);
      assert.deepEqual(Object.keys(await client.assistants.getSubgraphs("family", { namespace: "child" })), ["child"]);
      assert.deepEqual(await client.assistants.getSubgraphs("chat", { recurse: true }), {});
      assert.deepEqual(await client.assistants.getSubgraphs("agent"), {});
    });

    it("are rejected with a status and a text", async () => {
      await using at = await bench();
      const { client } = at;
      const { assistant_id } = await client.assistants.create({ graphId: "agent", name: "Kept" });
      await assertRefused(client.assistants.create({ graphId: "nope" }), 404, /nope/);
      await assertRefused(client.assistants.create({ graphId: "agent", assistantId: assistant_id }), 409, /exists/);
      const assistant = await client.assistants.create({
        graphId: "chat",
        assistantId: assistant_id,
        name: "Other",
        ifExists: "do_nothing",
      });
      assert.deepEqual([assistant.name, assistant.graph_id], ["Kept", "agent"]);
      await assertRefused(client.assistants.create({ graphId: "agent", assistantId: "no-uuid" }), 422, /assistant_id/);
      await assertRefused(client.assistants.get(ABSENT), 404, /not found/);
      await assertRefused(client.assistants.update(ABSENT, { name: "x" }), 404, /not found/);
      await assertRefused(client.assistants.setLatest(assistant_id, 99), 404, /version 99/);
      await assertRefused(client.assistants.getVersions(ABSENT), 404, /not found/);
      await assertRefused(client.assistants.search({ limit: 0 }), 422, /limit/);
      await assertRefused(client.assistants.search({ limit: 1001 }), 422, /limit/);
      await assertRefused(client.assistants.search({ sortBy: "height" as "name" }), 422, /sort_by/);
    });
  });
}
