import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { createLazyModule } from "../../lib/environment.ts";

interface Calls {
  double(value: number): Promise<number>;
  second(): Promise<string>;
}

describe("createLazyModule", () => {
  it("loads the module with the first call, once", async () => {
    let loads = 0;
    const answer = Promise.resolve("the same");
    const calls = createLazyModule<Calls>({ double: true, second: true }, async () => {
      loads += 1;
      return { double: async (value) => 2 * value, second: () => answer };
    });
    assert.equal(loads, 0);
    assert.deepEqual(await Promise.all([calls.double(1), calls.second(), calls.double(2)]), [2, "the same", 4]);
    assert.equal(loads, 1);
    // The call returns the promise of the module without another one around it.
    assert.equal(calls.second(), answer);
  });

  it("loads it again after a failure", async () => {
    let loads = 0;
    const calls = createLazyModule<Pick<Calls, "second">>({ second: true }, async () => {
      loads += 1;
      if (loads === 1) throw new Error("The file is not there");
      return { second: async () => "loaded" };
    });
    await assert.rejects(calls.second(), /not there/);
    assert.equal(await calls.second(), "loaded");
  });
});
