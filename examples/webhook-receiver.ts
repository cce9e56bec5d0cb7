// Told about the ends of runs, and believes only what is signed (Standard Webhooks, npm package `standardwebhooks`).
// Bun: npx bun examples/webhook-receiver.ts; Deno: npx deno serve -A --host 127.0.0.1 --port 4000 examples/webhook-receiver.ts
import process from "node:process";
import type { WebhookPayload } from "greenroom";
import { Webhook, WebhookVerificationError } from "standardwebhooks";

/** The `webhooks.signing_secret` of the server: `whsec_` and base64. */
const webhook = new Webhook(process.env.WEBHOOK_SECRET ?? "");
/** A delivery may come more than once, with the same id. Yours belongs into a database. */
const seen = new Set<string>();

async function receive(request: Request): Promise<Response> {
  // The text as it came: parsed and written again it would be other bytes, with another signature.
  const body = await request.text();
  try {
    webhook.verify(body, Object.fromEntries(request.headers));
  } catch (error) {
    if (!(error instanceof WebhookVerificationError)) throw error;
    console.log(`Refused: ${error.message}`);
    return new Response("This is not signed with our secret", { status: 401 });
  }
  const run: WebhookPayload = JSON.parse(body);
  const id = request.headers.get("webhook-id") ?? "";
  if (seen.has(id)) console.log(`Again: ${id}`);
  else console.log(`Run ${run.run_id}: ${run.status}`);
  seen.add(id);
  return new Response(null, { status: 204 });
}

export default { port: Number(process.env.PORT ?? 4000), hostname: "127.0.0.1", fetch: receive };
