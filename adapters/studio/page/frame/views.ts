/** The views of the page: each is loaded when it is opened. */
import type { ComponentType } from "preact";

export interface View {
  readonly name: string;
  readonly label: string;
  /** The letter after `g`. */
  readonly key: string;
  readonly sign: string;
  load(): Promise<{ readonly default: ComponentType }>;
}

export const VIEWS: readonly View[] = [
  { name: "threads", label: "Threads", key: "t", sign: "❏", load: () => import("../views/threads/view.tsx") },
  { name: "inbox", label: "Inbox", key: "i", sign: "◐", load: () => import("../views/inbox/view.tsx") },
  { name: "runs", label: "Runs", key: "r", sign: "▷", load: () => import("../views/runs/view.tsx") },
  { name: "assistants", label: "Assistants", key: "a", sign: "◇", load: () => import("../views/assistants/view.tsx") },
  { name: "crons", label: "Crons", key: "c", sign: "◷", load: () => import("../views/crons/view.tsx") },
  { name: "store", label: "Store", key: "s", sign: "▤", load: () => import("../views/store/view.tsx") },
  { name: "webhooks", label: "Webhooks", key: "w", sign: "⇥", load: () => import("../views/webhooks/view.tsx") },
  { name: "usage", label: "Usage", key: "u", sign: "▥", load: () => import("../views/usage/view.tsx") },
  { name: "feedback", label: "Feedback", key: "f", sign: "☆", load: () => import("../views/feedback/view.tsx") },
  { name: "server", label: "Server", key: "v", sign: "⚙", load: () => import("../views/server/view.tsx") },
];
