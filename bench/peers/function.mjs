// Agents without LangGraph: they show what starting Greenroom itself costs.
export async function* echo({ input }) {
  yield input;
}

export async function sleeper({ sleep }) {
  await sleep("long", "30d");
}
