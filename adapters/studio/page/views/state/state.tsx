import type { VNode } from "preact";
export function StateTab(_: object): VNode { return <p />; }
