import type { VNode } from "preact";

export default function Usage(): VNode {
  return <p>Usage</p>;
}
