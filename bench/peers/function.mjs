// An agent without LangGraph: shows what starting Greenroom itself costs.
export async function* echo({ input }) {
  yield input;
}
