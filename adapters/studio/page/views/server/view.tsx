import type { VNode } from "preact";

export default function Server(): VNode {
  return <p>Server</p>;
}
