import type { VNode } from "preact";

export default function Assistants(): VNode {
  return <p>Assistants</p>;
}
