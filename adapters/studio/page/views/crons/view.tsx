import type { VNode } from "preact";

export default function Crons(): VNode {
  return <p>Crons</p>;
}
