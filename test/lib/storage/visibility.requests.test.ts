/** Filters on metadata and values in requests: invalid ones are refused, and no others. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { testService } from "../../suite/kit.ts";
import { fake, THREAD } from "../http/fake-service.ts";

const FILTERED: readonly (readonly [path: string, field: "metadata" | "values"])[] = [
  ["/threads/search", "metadata"],
  ["/threads/search", "values"],
  ["/threads/count", "metadata"],
  ["/threads/count", "values"],
  [`/threads/${THREAD}/history`, "metadata"],
  ["/assistants/search", "metadata"],
  ["/assistants/count", "metadata"],
  ["/assistants/g/versions", "metadata"],
  ["/runs/crons/search", "metadata"],
  ["/runs/crons/count", "metadata"],
];

const deep = (levels: number): string => `${'{"a":'.repeat(levels)}1${"}".repeat(levels)}`;

/** filter, part of the detail; `FIELD` stands for the name of the field */
const REFUSED: readonly (readonly [filter: string, detail: string])[] = [
  [deep(100), "body: must not nest deeper than 64 levels"],
  [`{"a":${"[".repeat(100)}${"]".repeat(100)}}`, "body: must not nest deeper than 64 levels"],
  ['{"a":{"$eq":1}}', "FIELD: must hold values, not operators such as $eq"],
  ['{"a":{"$contains":["x"]}}', "FIELD: must hold values, not operators such as $contains"],
  ['{"$eq":1,"b":2}', "FIELD: must hold values, not operators such as $eq"],
  ['{"a":{"b":{"c":{"$contains":"x"}}}}', "FIELD: must hold values, not operators such as $contains"],
  ['{"a":[{"b":{"$eq":1}}]}', "FIELD: must hold values, not operators such as $eq"],
  ['{"a":1e999}', "FIELD: must not contain numbers beyond the range of a double"],
  ['{"a":[{"b":-1e999}]}', "FIELD: must not contain numbers beyond the range of a double"],
  ['"text"', "FIELD: must be an object"],
  ["[]", "FIELD: must be an object"],
  ["1", "FIELD: must be an object"],
];

const TAKEN: readonly string[] = [
  "{}",
  "null",
  '{"price$":1,"US$":{"a$b":2}}',
  '{"$":1,"a":{"$":2},"b":{"$1":3}}',
  '{"a":"$eq","b":["$or"]}',
  '{"$ref":"x","a":1}',
  '{"$id":"x"}',
  '{"a":{"$id":"x"},"b":[{"$schema":{"$ref":1}}]}',
  '{"$or":[{"a":1}],"a":{"$gt":1}}',
  '{"__proto__":{"a":1},"":null,"nul\\u0000":[[],{}]}',
  deep(60),
];

describe("a metadata filter", () => {
  for (const [path, field] of FILTERED) {
    it(`of ${path}, as ${field}, is refused if it is not valid`, async () => {
      const { send, calls } = fake();
      for (const [filter, detail] of REFUSED) {
        const answer = await send("POST", path, `{"${field}":${filter}}`);
        const body = await answer.json();
        assert.equal(answer.status, 422, `${filter}: ${JSON.stringify(body)}`);
        assert.ok(body.detail.startsWith(detail.replace("FIELD", field)), `${filter}: ${body.detail}`);
      }
      assert.equal((await send("POST", path, `{"${field}":{"a":NaN}}`)).status, 400);
      assert.deepEqual(calls, []);
    });

    it(`of ${path}, as ${field}, may contain any JSON`, async () => {
      const { send, calls } = fake();
      for (const filter of TAKEN) {
        const before = calls.length;
        const answer = await send("POST", path, `{"${field}":${filter}}`);
        assert.equal(answer.status, 200, `${filter}: ${await answer.text()}`);
        const requestedFilters = JSON.stringify(calls.slice(before).map(([, ...args]) => args));
        if (filter !== "null") assert.ok(requestedFilters.includes(`"${field}":${filter}`), requestedFilters);
      }
    });
  }
});

describe("a metadata key with a dollar sign", () => {
  const marked = { $id: "x", at: { $ref: { "$.a[0]": 1 } } };
  const fits: readonly object[] = [marked, { $id: "x" }, { at: { $ref: {} } }, { at: { $ref: { "$.a[0]": 1 } } }];
  const fitsNot: readonly object[] = [{ $id: "y" }, { id: "x" }, { $: "x" }, { at: { $ref: { "$.a[1]": 1 } } }];
  const creations: readonly (readonly [noun: string, path: string, body: object])[] = [
    ["threads", "/threads", {}],
    ["assistants", "/assistants", { graph_id: "agent" }],
    ["crons", "/runs/crons", { assistant_id: "agent", schedule: "0 0 1 1 *" }],
  ];
  for (const [noun, path, body] of creations) {
    it(`is an ordinary key in searches for ${noun}`, async () => {
      await using kit = await testService({ agents: { agent: () => ({}) } });
      const ask = async (path: string, body: object): Promise<unknown> => {
        const answer = await kit.fetch(`http://greenroom${path}`, { method: "POST", body: JSON.stringify(body) });
        assert.equal(answer.status, 200);
        return await answer.json();
      };
      await ask(path, { ...body, metadata: marked });
      await ask(path, { ...body, metadata: { other: 1 } });
      for (const [filters, count] of [
        [fits, 1],
        [fitsNot, 0],
      ] as const) {
        for (const metadata of filters) {
          const matches = (await ask(`${path}/search`, { metadata })) as readonly { readonly metadata: object }[];
          assert.equal(matches.length, count, JSON.stringify(metadata));
          if (count === 1) assert.deepEqual(matches[0]?.metadata, marked);
          assert.equal(await ask(`${path}/count`, { metadata }), count, JSON.stringify(metadata));
        }
      }
    });
  }
});
