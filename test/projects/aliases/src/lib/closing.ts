import { Kind } from "./kinds";
import { lines } from "../graph";

/** Imports the graph that imports it. */
export const closing = (): string => (lines(<string>Kind.Close) > 0 ? "." : "");
