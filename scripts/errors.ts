/**
 * The meaning and the remedy of each reason of lib/errors.ts. Not in lib, so that no program loads them. Writes the section
 * "Codes" of docs/reference/errors.md.
 *
 *   node scripts/errors.ts [--check]     --check: writes nothing, and fails where the page differs
 */
import { readFileSync, writeFileSync } from "node:fs";
import { type ErrorCode, type ErrorReason, REASONS, STATUS } from "../lib/errors.ts";

interface Help {
  readonly meaning: string;
  readonly remedy: string;
}

/** A reason without its help does not compile, nor does help for a reason that lib/errors.ts does not have. */
export const HELP: Readonly<Record<ErrorReason, Help>> = {
  trace_not_found: {
    meaning:
      "The run has no trace: `traces.record` is `none`, `traces.retention_ms` has passed, or the trace was deleted.",
    remedy: "Record traces, or keep them for longer.",
  },
  event_not_awaited: {
    meaning:
      "No call of a durable function waits for events here: the address is unknown, or the thread has had no call.",
    remedy: "Use the address that `wait` has handed out, or send the event after the function has used a step.",
  },
  event_answered: {
    meaning: "Another event has come to this address. The same event again gets 200.",
    remedy: "There is nothing to do: the function continues with the first event.",
  },
  event_misfit: {
    meaning: "The event does not fit the `schema` of the `wait`, which goes on.",
    remedy: "Send an event that fits.",
  },
  call_ended: {
    meaning: "The call of the durable function has ended, or its `wait` has, and takes no more events.",
    remedy: "Start a new run if the event is for one; otherwise there is nothing to do.",
  },
  bad_request: {
    meaning:
      "The body is not valid JSON, or its fields contradict each other. Examples: one name has different values in `config.configurable` and in `context`; a stateless run has a `checkpoint`.",
    remedy: "Correct the request.",
  },
  unauthenticated: {
    meaning: "The caller is unknown: no valid credential was sent, or your `authenticate` refused it.",
    remedy: "Send a valid credential. In mode `agent_builder` also send `X-Auth-Scheme: service-api-key`.",
  },
  api_key_missing: { meaning: "The request has no API key.", remedy: "Send one as `X-API-Key`." },
  api_key_invalid: {
    meaning: "The API key is unknown, expired or revoked.",
    remedy: "Create a new key and send it as `X-API-Key`.",
  },
  forbidden: {
    meaning:
      "The credential is valid but does not permit the request, or your authentication or authorization handler refused it. The status is then the one that the handler threw.",
    remedy: "Use another credential, or change what the handler permits.",
  },
  origin_refused: {
    meaning: "A page of another origin called the server.",
    remedy:
      "Add the origin to `http.cors.allow_origins`. Changes that such pages send with cookies also need `http.cors.allow_credentials`.",
  },
  permission_missing: {
    meaning: "The key or user does not have the permission that the message names.",
    remedy: "Use a key or a user with this permission.",
  },
  static_accounts: {
    meaning: "The accounts of this deployment are defined by its options.",
    remedy: "Change the options and restart the server.",
  },
  workspace_forbidden: {
    meaning: "The key has no access to the organization or workspace of the request.",
    remedy: "Correct `X-Tenant-Id`, `X-Organization-Id` or the workspaces of the query, or use another key.",
  },
  not_found: {
    meaning:
      "The resource does not exist, or the caller may not see it. Greenroom does not distinguish the two, here and in the reasons below.",
    remedy: "Check the id and the caller.",
  },
  assistant_not_found: {
    meaning: "The assistant does not exist.",
    remedy: "Check `assistant_id`: a UUID, or the id of a graph.",
  },
  checkpoint_not_found: {
    meaning: "The thread does not have this checkpoint.",
    remedy: "List its checkpoints with `GET /threads/{thread_id}/history`.",
  },
  graph_not_found: { meaning: "This server has no such graph.", remedy: "Check `graph_id`, or add the agent." },
  route_not_found: {
    meaning:
      "The path does not exist, its routes are disabled, or the caller has no permission in the workspace of the deployment.",
    remedy: "Check the path and the mount prefix.",
  },
  run_not_found: {
    meaning: "The run does not exist. Stateless runs and rolled-back runs are deleted.",
    remedy: "Check the id of the run and that of its thread.",
  },
  thread_not_found: {
    meaning: "The thread does not exist.",
    remedy: 'Create it, or send `if_not_exists: "create"` with the run.',
  },
  usage_disabled: {
    meaning: "Usage reporting is not enabled on this server.",
    remedy: "Set `usage.enabled`.",
  },
  method_not_allowed: {
    meaning: "The path exists, but not with this method.",
    remedy: "Use a method that `Allow` lists.",
  },
  too_slow: {
    meaning: "The request body did not arrive in time.",
    remedy: "Send it again, or raise `http.body_timeout_ms`.",
  },
  conflict: {
    meaning: "The request contradicts the state of the resource.",
    remedy: "Read the message, then read the resource again.",
  },
  already_exists: {
    meaning: "The id or name is taken.",
    remedy: 'Use another id or name. For threads and assistants, `if_exists: "do_nothing"` returns the existing one.',
  },
  default_assistant: {
    meaning: "The default assistant of a graph cannot be deleted.",
    remedy: "Remove the agent from the server instead.",
  },
  delivery_active: { meaning: "The webhook is being sent.", remedy: "Retry later." },
  idempotent_run_gone: {
    meaning: "The run that was created with this `Idempotency-Key` was deleted.",
    remedy: "Use a new key to create another run.",
  },
  limit_reached: {
    meaning: "The thread or the deployment has as many pending runs as a limit of `limits` permits.",
    remedy: "Retry later, or raise the limit.",
  },
  run_active: { meaning: "The run is running.", remedy: "Cancel the run before you delete it." },
  submission_key_reused: {
    meaning: "Other feedback was submitted with this `Idempotency-Key`.",
    remedy: "Use a new key.",
  },
  interrupt_already_answered: {
    meaning:
      "A pending or running run answers this interrupt. The body names it in `run_id`. The same code as the error of a tab or a client that was later than another.",
    remedy:
      'Follow that run. To replace its answer, send the new one with `multitask_strategy: "rollback"`, which deletes that run.',
  },
  no_open_interrupt: {
    meaning:
      "`command.resume` was sent to a thread that waits for no answer, or names only interrupts that are not open.",
    remedy: "Read the thread again. To continue without an answer, send `input: null`.",
  },
  thread_busy: {
    meaning: "The thread executes a run.",
    remedy: 'Wait for the run, or send `multitask_strategy: "enqueue"`.',
  },
  outcome_unknown: {
    meaning:
      "The connection to Postgres was lost during a commit, and the database did not come back within 15 seconds. Or a libSQL server did not respond to a write. The status is not 5xx, because SDKs repeat such calls. Calls that are safe to repeat (`GET`, `PUT`, `DELETE`, or with an `Idempotency-Key`) get `storage_unavailable` with `Retry-After` instead.",
    remedy: "Check whether the change took effect before you repeat the call.",
  },
  gone: {
    meaning: "The feedback link has expired. Links live for `feedback.token_ttl_ms` after the end of the run.",
    remedy: "Create a new link.",
  },
  too_large: {
    meaning:
      "The body exceeds `http.max_body_bytes` or `http.max_body_values`. Submissions to feedback links and events of durable functions are limited to 256 KiB, which no option raises.",
    remedy: "Send less at once, or raise the limit.",
  },
  unsupported_type: {
    meaning: "Only in mode `agent_builder`: the body is not declared as JSON.",
    remedy: "Send `Content-Type: application/json`.",
  },
  wrong_host: {
    meaning:
      "The `Host` header is not one of the handler's `hosts`. The stand-alone server without keys, and handlers with `hosts`, accept only known host names, as a protection against DNS rebinding.",
    remedy: "Use one of these names, or set `public_base_url`.",
  },
  invalid: {
    meaning:
      "A field has a wrong type, exceeds a [limit](../operations/guarantees.md#limits), or refers to something that the service cannot use. The message starts with the path of the field, for example `after_seconds: must be a number from 0 to …`.",
    remedy: "Correct the field.",
  },
  idempotency_key_reused: {
    meaning: "Another request was sent with this `Idempotency-Key`.",
    remedy: "Use a new key, or repeat the first request unchanged.",
  },
  public_base_url_missing: {
    meaning: "Feedback links need the public address of the server.",
    remedy: "Set `public_base_url`.",
  },
  search_not_configured: {
    meaning: "The store has no index for semantic search.",
    remedy: "Configure `store.index`, or search without `query`.",
  },
  webhook_refused: {
    meaning: "The webhook policy refuses the URL. The message names the rule.",
    remedy: "Use another URL, or change [`webhooks.url`](../guides/webhooks.md).",
  },
  upgrade_required: {
    meaning: "The path opens WebSockets, and the request is not a WebSocket handshake.",
    remedy: "Open a WebSocket, or send a `POST` for server-sent events.",
  },
  too_many: {
    meaning: "A feedback link accepts 100 submissions.",
    remedy: "Create a new link.",
  },
  internal: {
    meaning:
      "A bug in Greenroom, in the host or in an authentication handler. The log has a record `A request failed` with the stack and the same `request_id`.",
    remedy: "Read the log.",
  },
  not_built: {
    meaning:
      "The route is part of the API but [not implemented](sdk.md#not-implemented), or the host cannot open WebSockets. See [event protocol](event-protocol.md#websocket). `/docs` returns it if the host passes no `docs` to `createHandler`.",
    remedy: "Use another route.",
  },
  unavailable: {
    meaning: "The server cannot handle the request now.",
    remedy: "Retry later.",
  },
  auth_timeout: {
    meaning: "Your authentication or authorization handler took more than 10 seconds.",
    remedy: "Make the handler faster, and retry later.",
  },
  server_busy: {
    meaning:
      "Requests and responses above 1 MiB of this credential, or without authentication of this address, use all memory that one caller may use. The request had no effect. The response has `Retry-After`.",
    remedy:
      "Read or close the open responses, and retry later. [`http.large_bodies`](configuration.md) has the limits.",
  },
  server_stopping: {
    meaning: "The server is stopping.",
    remedy: "Retry. Behind a load balancer, another process gets the request.",
  },
  storage_unavailable: {
    meaning:
      "The database cannot be reached, and nothing was stored. Everything continues when it is back. Responses to calls that are safe to repeat have `Retry-After: 1`.",
    remedy: "Retry later.",
  },
  storage_damaged: {
    meaning: "The files of the database were damaged, deleted or replaced while the server used them.",
    remedy: "Stop the server and restore a backup.",
  },
  storage_full: {
    meaning:
      "The disk of the database is full, a quota is used up, or the file may not grow, and nothing was stored. The service recovers without a restart.",
    remedy: "Free some space or raise the limit.",
  },
};

/** Breaks a text into lines of at most 100 characters. All but the first begin with `indent`. */
function filled(text: string, indent = ""): string {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > 100) {
      lines.push(line);
      line = indent + word;
    } else line += line === "" ? word : ` ${word}`;
  }
  return [...lines, line].join("\n");
}

/** Returns the sections of all codes, each with its reasons. */
function codesSection(): string {
  const codes = (Object.keys(STATUS) as ErrorCode[]).map((code) => {
    const reasons = (Object.keys(REASONS) as (keyof typeof REASONS)[]).filter((reason) => REASONS[reason] === code);
    const items = reasons.map((reason) => {
      const { meaning, remedy } = HELP[reason];
      return filled(`- **\`${reason}\`**: ${meaning} ${remedy}`, "  ");
    });
    const list = items.length > 0 ? `\n\n${items.join("\n")}` : "";
    return `### ${code}: ${STATUS[code]}\n\n${filled(`${HELP[code].meaning} ${HELP[code].remedy}`)}${list}`;
  });
  return codes.join("\n\n");
}

/** The page with the section "Codes" as the list has it. */
export const errorsPage = (page: string): string =>
  page.replace(/(?<=\n## Codes\n\n)[\s\S]*?(?=\n\n## )/, () => codesSection());

if (import.meta.main) {
  const file = new URL("../docs/reference/errors.md", import.meta.url);
  const page = readFileSync(file, "utf8");
  if (process.argv[2] !== "--check") writeFileSync(file, errorsPage(page));
  else if (errorsPage(page) !== page) {
    console.error("docs/reference/errors.md differs from the list. Run: node scripts/errors.ts");
    process.exitCode = 1;
  }
}
