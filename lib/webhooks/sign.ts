/** Signs deliveries as Standard Webhooks defines. */

const encoder = new TextEncoder();

/** The value of `webhook-signature`: one `v1,<base64>` per secret, separated by spaces. `timestamp` is in seconds since 1970. */
export async function signature(
  secrets: readonly Uint8Array[],
  id: string,
  timestamp: number,
  body: string,
): Promise<string> {
  const content = encoder.encode(`${id}.${timestamp}.${body}`);
  const signed = await Promise.all(secrets.map(async (secret) => `v1,${base64(await hmac(secret, content))}`));
  return signed.join(" ");
}

async function hmac(secret: Uint8Array, content: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", new Uint8Array(secret), algorithm, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", key, content));
}

const base64 = (bytes: Uint8Array): string => btoa(String.fromCharCode(...bytes));
