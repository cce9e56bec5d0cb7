/** Opens WebSockets, and connects each with its session. */
import { ServiceError } from "../errors.ts";
import type { CommandCaller } from "../protocol/mod.ts";
import { createSession } from "../protocol/session.ts";
import type { Visibility } from "../storage/visibility.ts";
import type { RequestContext } from "./context.ts";
import { eventFilter } from "./parse/protocol.ts";
import { readFields } from "./parse/read.ts";

/** Browsers and proxies answer 101 themselves; the constructor of a Response refuses the status. */
function switched(): Response {
  const response = new Response(null);
  Object.defineProperty(response, "status", { value: 101 });
  return response;
}

/** Opens the WebSocket of a thread. Errors: not_built (the host cannot), bad_request (no valid handshake). */
export function openSocket(
  context: RequestContext,
  thread_id: string,
  caller: CommandCaller,
  visibility: Visibility,
): Response {
  const { host, handler, service, principal, request_id } = context;
  if (typeof host.upgradeWebSocket !== "function") {
    const message = "This server cannot open WebSockets. Send a POST to this path for server-sent events";
    throw new ServiceError("not_built", message);
  }
  const { max_bytes } = handler.messages;
  const upgraded = host.upgradeWebSocket({ max_bytes });
  if (!upgraded) throw new ServiceError("bad_request", "The WebSocket handshake is not valid");
  const { socket, response } = upgraded;
  const session = createSession({
    environment: service.environment,
    protocol: service.protocol,
    socket,
    thread_id,
    caller,
    visibility,
    max_bytes,
    parse: handler.messages.parse,
    readFilter: (params) => readFields(params, eventFilter),
    isStillValid: principal.isStillValid,
    ids: { request_id },
  });
  handler.bodies.open++;
  let open = true;
  const close = (): void => {
    if (open) handler.bodies.open--;
    open = false;
    session.onClose();
  };
  socket.addEventListener("message", ({ data }: { readonly data: unknown }) => session.onMessage(data));
  socket.addEventListener("close", close);
  socket.addEventListener("error", close);
  return response ?? switched();
}
