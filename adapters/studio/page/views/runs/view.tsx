import type { VNode } from "preact";

export default function Runs(): VNode {
  return <p>Runs</p>;
}
