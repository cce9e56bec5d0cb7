import { agent as defineAgent } from "greenroom";

export const agent = defineAgent(async function* ({ ask }) {
  const element = await ask("element", "Which element?", { schema: { type: "string" } });
  yield `${element}.`;
});
