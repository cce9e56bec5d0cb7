/** The usage of models, and its cost. */

/** The tokens and the cost of model calls. */
export interface ModelUsage {
  readonly tokens_in?: number;
  readonly tokens_out?: number;
  /** The cost in US dollars. Default: the cost of the tokens by the price of `model` in `usage.prices`. */
  readonly cost_usd?: number;
  /** The name of the model. */
  readonly model?: string;
}

/** The prices of models in US dollars per million tokens. */
export type Prices = Readonly<Record<string, { readonly tokens_in: number; readonly tokens_out: number }>>;

/** Returns the cost of usage in US dollars: the reported one, else by the price of the model. Returns undefined without either. */
export function findCost(
  { tokens_in = 0, tokens_out = 0, cost_usd, model = "" }: ModelUsage,
  prices: Prices,
): number | undefined {
  if (cost_usd !== undefined) return cost_usd;
  const price = Object.hasOwn(prices, model) ? prices[model] : undefined;
  return price && (tokens_in * price.tokens_in + tokens_out * price.tokens_out) / 1e6;
}
