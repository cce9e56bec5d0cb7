/** The sections of the document, in their order on pages. */
export const TAGS: Readonly<Record<string, string>> = {
  Assistants: "Graphs with a configuration, in versions.",
  Threads: "Conversations: their metadata, their states and their events.",
  Runs: "Executions of an assistant, on a thread or without one.",
  Crons: "Schedules that start runs.",
  Store: "Values that all threads and agents share.",
  Feedback: "Scores and comments on runs, and links by which people send them.",
  Traces: "What each run did, span by span.",
  Operations: "Lists over all threads, for the people who operate the server.",
  Usage: "How much was executed, for bills.",
  Platform: "What clients of LangSmith ask for.",
  "AI SDK": "Chats of the AI SDK.",
  "AG-UI": "Runs of AG-UI's clients.",
  MCP: "Agents as tools of the Model Context Protocol.",
  A2A: "Agents of the Agent2Agent protocol.",
  Server: "Health, metrics and this document.",
};
