import type { VNode } from "preact";

export default function Webhooks(): VNode {
  return <p>Webhooks</p>;
}
