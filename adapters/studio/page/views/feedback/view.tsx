import type { VNode } from "preact";

export default function Feedback(): VNode {
  return <p>Feedback</p>;
}
