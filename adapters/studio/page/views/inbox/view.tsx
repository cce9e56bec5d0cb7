import type { VNode } from "preact";

export default function Inbox(): VNode {
  return <p>Inbox</p>;
}
