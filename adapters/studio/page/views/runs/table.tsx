import type { VNode } from "preact";
export function ThreadRuns(_: object): VNode { return <p />; }
