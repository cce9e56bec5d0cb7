import { MessagesAnnotation } from "@langchain/langgraph";

export const State = MessagesAnnotation;
