/** Handlers of custom authorization, webhook payloads and feedback that must compile. */
import { expectTypeOf } from "expect-type";
import {
  type AuthContext,
  type AuthHandlers,
  type AuthValues,
  defineAuth,
  type FeedbackCreate,
  type FeedbackRecord,
  type FeedbackSubmission,
  type FeedbackToken,
  type JsonObject,
  type WebhookPayload,
  type WebhookStatus,
} from "greenroom";
import { createApp, type PayloadOf } from "greenroom/app";
import { counter, graph, refund } from "./agents.right.ts";

/** R15: the example of the guide, and members that authenticate returns. */
export const app = await createApp({
  database: ":memory:",
  agents: { refund, counter, graph, old: () => "Hi" },
  auth: {
    custom: {
      async authenticate(request) {
        return { identity: request.headers.get("authorization") ?? "" };
      },
      on: {
        "*": ({ value, user }) => {
          value.metadata = { ...value.metadata, owner: user.identity };
          return { owner: user.identity };
        },
        store: ({ value, user }) => {
          value.namespace = [user.identity, ...(value.namespace ?? [])];
        },
        "assistants:read": () => true,
        "threads:create_run": ({ value }) => value.assistant_id !== "x",
        "*:delete": ({ event }) => event !== "store:delete",
      },
    },
  },
});
defineAuth({
  authenticate: () => ({ identity: "ann", team: "blue", teams: ["blue"] }),
  on: {
    threads: ({ event, value, user, action }) => {
      expectTypeOf(user.team).toEqualTypeOf<string>();
      expectTypeOf(action).toEqualTypeOf<"create" | "read" | "update" | "delete" | "search" | "create_run">();
      if (event === "threads:create_run") value.kwargs.context = { ...value.kwargs.context, team: user.team };
      if (event === "threads:create") value.metadata.teams = user.teams;
      return { team: { $contains: user.team } };
    },
    "*:delete": ({ event }) => event !== "store:delete",
    "crons:create": ({ value }) => value.schedule !== "* * * * *",
  },
});
defineAuth({ authenticate: async () => "ann", on: { "*": async ({ user }) => ({ owner: user.identity }) } });
/** Handlers with the types that compiled before events had types. */
const owns = ({ user }: AuthContext): JsonObject => ({ owner: user.identity });
export const handlers: AuthHandlers = { threads: owns, "threads:create": owns, "*": owns };
expectTypeOf<AuthContext<"store:get">["value"]>().toEqualTypeOf<AuthValues["store:get"]>();

/** R16: the payload of a webhook has the values of the agent. */
declare const payload: PayloadOf<typeof app, "refund">;
expectTypeOf(payload.values?.paid).toEqualTypeOf<number | undefined>();
expectTypeOf<PayloadOf<{ counter: typeof counter }, "counter">>().toEqualTypeOf<PayloadOf<typeof app, "counter">>();
declare const untyped: WebhookPayload;
untyped.values?.anything;
const status: WebhookStatus = payload.status;
export const records: readonly [status: WebhookStatus, ...(FeedbackCreate | FeedbackRecord | FeedbackToken)[]] = [
  status,
];
export const score = ({ score }: FeedbackSubmission): number => (typeof score === "number" ? score : 0);
