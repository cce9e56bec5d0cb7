import type { VNode } from "preact";

export default function Store(): VNode {
  return <p>Store</p>;
}
