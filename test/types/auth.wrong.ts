/** Handlers of custom authorization and uses of webhook payloads that must not compile. */
import { defineAuth } from "greenroom";
import type { PayloadOf } from "greenroom/app";
import type { app } from "./auth.right.ts";

declare const payload: PayloadOf<typeof app, "refund">;

// W18 an unknown event: '"threads:craete"' does not exist
defineAuth({ authenticate: () => "ann", on: { "threads:craete": () => true } });
// W19 a member that the value of the event does not have: Property 'assistant_id' does not exist
defineAuth({ authenticate: () => "ann", on: { "threads:create": ({ value }) => value.assistant_id === "x" } });
// W19 a member of another event, before a check of the event: Property 'assistant_id' does not exist
defineAuth({ authenticate: () => "ann", on: { threads: ({ value }) => value.assistant_id === "x" } });
// W19 a member that authenticate does not return: not assignable
defineAuth({ authenticate: () => ({ identity: "ann" }), on: { threads: ({ user }) => user.team satisfies string } });
// W20 a handler that returns text: Type 'string' is not assignable to type
defineAuth({ authenticate: () => "ann", on: { store: () => "yes" } });
// W18 authentication without an identity: 'identity' is missing
defineAuth({ authenticate: () => ({ name: "ann" }) });
// W16 the payload of an agent that does not exist: "refnd"
export type Unknown = PayloadOf<typeof app, "refnd">;
// W32 a status that does not exist: no overlap
payload.status === "done";
// W32 a member of the values that does not exist: Property 'payed' does not exist
payload.values?.payed;
