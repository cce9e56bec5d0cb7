/** The platform API: workspaces, usage and feedback. */
import { FEEDBACK, RUN, WORKSPACE } from "../example-ids.ts";
import { langsmith, type OperationTexts } from "./text.ts";

const PERIOD = { start_time: "2026-01-01T00:00:00Z", end_time: "2026-01-02T00:00:00Z", workspace_ids: [WORKSPACE] };
const SUBMISSION = { score: 1, comment: "Helpful" };

export const platformTexts: OperationTexts = {
  "get /api/v1/info": {
    description:
      "Returns the version of the platform API and which of its features are on. Clients of LangSmith call it first.",
  },
  "get /api/v1/workspaces": {
    description: "Returns the workspaces that the key may read, sorted by name.",
    query: { limit: 10 },
  },
  "get /api/v1/orgs/current/billing/granular-usage": {
    description:
      "Returns how many runs were traced in each bucket of time. `group_by` splits the numbers; `include=tokens` adds tokens and cost.",
    query: { ...PERIOD, group_by: "workspace" },
    codes: { 404: ["usage_disabled"] },
  },
  "get /api/v1/orgs/current/billing/granular-usage/export": {
    description: "Returns the same numbers as a CSV file with a row for each bucket and group.",
    query: { ...PERIOD, group_by: "workspace" },
    codes: { 404: ["usage_disabled"] },
  },
};

export const feedbackTexts: OperationTexts = {
  "get /api/v1/feedback/tokens/:token+": {
    description:
      "Records feedback from the query, for links in mails and messages. Needs no key, because the token is secret. Mail scanners that send `HEAD` record nothing.",
    query: { score: "1", comment: "Helpful" },
    codes: { 404: ["not_found"], 409: ["submission_key_reused"] },
  },
  "post /api/v1/feedback/tokens/:token+": {
    description:
      "Records feedback from the body. Needs no key, because the token is secret. A link takes at most 100 submissions.",
    body: SUBMISSION,
    codes: { 404: ["not_found"], 409: ["submission_key_reused"] },
  },
  "post /api/v1/feedback/tokens": {
    description: "Creates a link, or a list of links, by which people without a key can send feedback on a run.",
    body: { run_id: RUN, feedback_key: "helpful", expires_in: { days: 7 } },
    call: langsmith(`await client.createPresignedFeedbackToken("${RUN}", "helpful", { expiration: { days: 7 } });`),
    codes: { 404: ["run_not_found"], 422: ["public_base_url_missing"] },
  },
  "get /api/v1/feedback/tokens": {
    description: "Returns the links of a run with their addresses, a page at a time.",
    query: { run_id: RUN },
    call: langsmith(`for await (const link of client.listPresignedFeedbackTokens("${RUN}")) console.log(link.url);`),
  },
  "get /api/v1/feedback/stats": {
    description:
      "Returns the number, the average and the values of the feedback that matches all filters, for each key.",
    query: { run: [RUN] },
  },
  "get /api/v1/feedback": {
    description: "Returns the feedback that matches all filters, a page at a time.",
    query: { run: [RUN] },
    call: langsmith(`for await (const feedback of client.listFeedback({ runIds: ["${RUN}"] })) console.log(feedback);`),
  },
  "post /api/v1/feedback": {
    description:
      "Records feedback on a run, or on a project. With an `id` of its own the same call again records it once.",
    body: { id: FEEDBACK, run_id: RUN, key: "helpful", score: 1, comment: "Correct" },
    call: langsmith(
      `await client.createFeedback("${RUN}", "helpful", { feedbackId: "${FEEDBACK}", score: 1, comment: "Correct" });`,
    ),
    codes: { 404: ["run_not_found", "not_found"], 409: ["already_exists"] },
  },
  "get /api/v1/feedback/:id": {
    description: "Returns one record of feedback.",
    path: { id: FEEDBACK },
    call: langsmith(`await client.readFeedback("${FEEDBACK}");`),
    codes: { 404: ["not_found"] },
  },
  "patch /api/v1/feedback/:id": {
    description: "Changes the members that the body has. Null clears a member; absent members stay.",
    path: { id: FEEDBACK },
    body: { score: 0, comment: null },
    call: langsmith(`await client.updateFeedback("${FEEDBACK}", { score: 0, comment: null });`),
    codes: { 404: ["not_found"] },
  },
  "delete /api/v1/feedback/:id": {
    description: "Deletes one record of feedback.",
    path: { id: FEEDBACK },
    call: langsmith(`await client.deleteFeedback("${FEEDBACK}");`),
    codes: { 404: ["not_found"] },
  },
};
