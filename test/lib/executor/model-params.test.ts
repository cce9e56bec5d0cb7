import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { selectModelParams } from "../../../lib/executor/model-params.ts";

describe("selectModelParams", () => {
  it("keeps permitted parameters under one name, whichever library gives them", () => {
    assert.deepEqual(
      selectModelParams({
        ...{ temperature: 0, topP: 0.9, top_k: 40, maxOutputTokens: 100, stopSequences: ["END"], seed: 7 },
        ...{
          frequencyPenalty: 0.1,
          presence_penalty: 0.2,
          reasoning: { effort: "low", summary: "auto" },
          stream: true,
        },
      }),
      {
        ...{ temperature: 0, top_p: 0.9, top_k: 40, max_tokens: 100, stop: ["END"], seed: 7 },
        ...{ frequency_penalty: 0.1, presence_penalty: 0.2, reasoning_effort: "low", stream: true },
      },
    );
  });

  it("keeps only the names of tools, choices and formats", () => {
    const schema = { type: "object", description: "A secret" };
    assert.deepEqual(
      selectModelParams({
        tools: [
          { type: "function", function: { name: "weather", parameters: schema } },
          { name: "search", input_schema: schema },
          { functionDeclarations: [{ name: "draw", parameters: schema }] },
          { type: "web_search" },
        ],
        tool_choice: { type: "function", function: { name: "weather" } },
        response_format: { type: "json_schema", json_schema: { name: "report", schema } },
      }),
      { tools: ["weather", "search", "draw", "web_search"], tool_choice: "weather", response_format: "report" },
    );
    assert.deepEqual(
      selectModelParams({ tools: { weather: schema }, toolChoice: { type: "tool", toolName: "weather" } }),
      {
        tools: ["weather"],
        tool_choice: "weather",
      },
    );
    assert.deepEqual(selectModelParams({ toolChoice: "auto", responseFormat: { type: "json", schema } }), {
      tool_choice: "auto",
      response_format: "json",
    });
  });

  it("keeps nothing else", () => {
    const others = {
      apiKey: "secret",
      headers: { authorization: "secret" },
      user: "ann",
      messages: ["Hi"],
      signal: {},
    };
    assert.equal(selectModelParams(others), undefined);
    assert.equal(selectModelParams(undefined, null, "text"), undefined);
    assert.equal(
      selectModelParams({ temperature: { secret: 1 }, seed: Number.NaN, stop: [{ secret: 1 }] })?.seed,
      undefined,
    );
    assert.equal(selectModelParams({ tool_choice: "x".repeat(101) }), undefined);
  });

  it("takes the first value of several sources", () => {
    assert.deepEqual(selectModelParams({ temperature: 1 }, { temperature: 2, max_tokens: 3 }), {
      temperature: 1,
      max_tokens: 3,
    });
  });

  it("returns at most 1 KiB, without the last tools", () => {
    const tools = Array.from({ length: 100 }, (_, index) => ({ name: `tool-ä-${index}` }));
    const params = selectModelParams({ tools, temperature: 0.5, seed: 1 });
    assert.ok(new TextEncoder().encode(JSON.stringify(params)).length <= 1024);
    const names = params?.tools as string[];
    assert.ok(names.length > 50 && names.length < 100);
    assert.deepEqual(
      names,
      tools.slice(0, names.length).map(({ name }) => name),
    );
    assert.equal(params?.temperature, 0.5);
  });
});
