import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { contains, type Json, pickScalars, sameJson } from "../../lib/json.ts";

const parsed = (text: string): Json => JSON.parse(text) as Json;

describe("containment", () => {
  const holds: readonly (readonly [whole: string, part: string])[] = [
    ["{}", "{}"],
    ['{"a":1}', "{}"],
    ['{"a":1,"b":2}', '{"b":2}'],
    ['{"a":{"b":{"c":1},"d":2}}', '{"a":{"b":{"c":1}}}'],
    ['{"a":{"b":1}}', '{"a":{}}'],
    ['{"a":[1,2,3]}', '{"a":[3,1]}'],
    ['{"a":[1]}', '{"a":[1,1]}'],
    ['{"a":[1,2]}', '{"a":[]}'],
    ['{"a":[{"x":1,"y":2}]}', '{"a":[{"x":1},{"y":2}]}'],
    ['{"a":[[1,2],[3]]}', '{"a":[[2]]}'],
    ['{"a":null}', '{"a":null}'],
    ['{"a":0}', '{"a":-0}'],
    ['{"a":1e21}', '{"a":1000000000000000000000}'],
    ['{"a":0.30000000000000004}', '{"a":0.30000000000000004}'],
    ['{"__proto__":{"a":1}}', '{"__proto__":{"a":1}}'],
    ['{"":"\\u0000"}', '{"":"\\u0000"}'],
  ];
  const fails: readonly (readonly [whole: string, part: string])[] = [
    ["{}", '{"a":null}'],
    ["{}", '{"__proto__":{}}'],
    ["{}", '{"constructor":{}}'],
    ["{}", '{"toString":null}'],
    ['{"a":1}', '{"a":"1"}'],
    ['{"a":true}', '{"a":1}'],
    ['{"a":null}', '{"a":false}'],
    ['{"a":1}', '{"a":[1]}'],
    ['{"a":[1]}', '{"a":1}'],
    ['{"a":[]}', '{"a":{}}'],
    ['{"a":{}}', '{"a":[]}'],
    ['{"a":[{"x":1},{"y":2}]}', '{"a":[{"x":1,"y":2}]}'],
    ['{"a":[[1],[2]]}', '{"a":[[1,2]]}'],
    ['{"a":0.3}', '{"a":0.30000000000000004}'],
    ['{"a":"e\\u0301"}', '{"a":"\\u00e9"}'],
    ['{"a.b":1}', '{"a":{"b":1}}'],
  ];
  it("finds a part in the whole", () => {
    for (const [whole, part] of holds) assert.ok(contains(parsed(whole), parsed(part)), `${whole} has ${part}`);
  });

  it("finds no part that is missing", () => {
    for (const [whole, part] of fails) assert.ok(!contains(parsed(whole), parsed(part)), `${whole} has no ${part}`);
  });
});

describe("equality of JSON values", () => {
  it("compares members in any order", () => {
    assert.ok(sameJson(parsed('{"a":1,"b":[1,{"c":2}]}'), parsed('{"b":[1,{"c":2}],"a":1}')));
    assert.ok(sameJson(parsed('{"__proto__":1}'), parsed('{"__proto__":1}')));
    assert.ok(!sameJson(parsed('{"__proto__":{}}'), parsed('{"a":{}}')));
    assert.ok(!sameJson(parsed("[1,2]"), parsed("[2,1]")));
    assert.ok(!sameJson(parsed('{"a":1}'), parsed('{"a":1,"b":1}')));
    assert.ok(!sameJson(null, parsed("{}")));
  });
});

describe("the scalars of a state", () => {
  it("are the top-level members without members of their own", () => {
    const text = '{"a":1,"b":"x","c":true,"d":null,"e":[],"f":{},"__proto__":2}';
    assert.equal(JSON.stringify(pickScalars(parsed(text))), '{"a":1,"b":"x","c":true,"d":null,"__proto__":2}');
  });

  it("are empty if the state is no object", () => {
    for (const values of [undefined, null, 1, "x", [1, 2]]) assert.deepEqual(pickScalars(values as Json), {});
  });
});
