// Agents without LangGraph: they show what starting Greenroom itself costs.
export async function* echo({ input }) {
  yield input;
}

export async function sleeper({ sleep }) {
  await sleep("long", "30d");
}

/** Calls 5,000 tools that do nothing, and lets other requests in between. */
export async function tools({ span }) {
  for (let i = 0; i < 5_000; i += 1) {
    await span(`tool ${i % 10}`, () => i, { kind: "tool" });
    if (i % 50 === 49) await new Promise((resolve) => setTimeout(resolve, 0));
  }
  return { messages: [] };
}
