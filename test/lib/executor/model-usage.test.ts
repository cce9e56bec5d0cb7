/** The cost of usage: as reported, by the price of the model, or unknown. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { findCost } from "../../../lib/executor/model-usage.ts";

const PRICES = { "gpt-5": { tokens_in: 1.25, tokens_out: 10 } };

describe("The cost of usage", () => {
  it("is the reported one, also if it is 0", () => {
    assert.equal(findCost({ tokens_in: 1_000_000, cost_usd: 0.5, model: "gpt-5" }, PRICES), 0.5);
    assert.equal(findCost({ tokens_in: 1_000_000, cost_usd: 0, model: "gpt-5" }, PRICES), 0);
  });

  it("is that of the tokens by the price of the model otherwise", () => {
    assert.equal(findCost({ tokens_in: 2_000_000, tokens_out: 100_000, model: "gpt-5" }, PRICES), 3.5);
    assert.equal(findCost({ tokens_out: 100_000, model: "gpt-5" }, PRICES), 1);
  });

  it("is unknown for a model without a price, and for usage without a model", () => {
    for (const model of ["other", "toString", ""]) assert.equal(findCost({ tokens_in: 10, model }, PRICES), undefined);
    assert.equal(findCost({ tokens_in: 10 }, PRICES), undefined);
  });
});
