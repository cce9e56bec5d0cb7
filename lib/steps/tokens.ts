/** Ids and tokens of calls: SHA-1 for UUIDs of version 5, SHA-256 for tokens. */
import type { Environment } from "../environment.ts";

const hex = (bytes: Uint8Array): string => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");

const digest = async (algorithm: "SHA-1" | "SHA-256", data: Uint8Array): Promise<Uint8Array> =>
  new Uint8Array(await crypto.subtle.digest(algorithm, data as Uint8Array<ArrayBuffer>));

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

/** UUID version 5 of a name in the namespace of a UUID. */
export async function uuidOf(namespace: string, name: string): Promise<string> {
  const space = namespace.replaceAll("-", "").match(/../g) ?? [];
  const data = new Uint8Array([...space.map((pair) => Number.parseInt(pair, 16)), ...bytesOf(name)]);
  const hash = (await digest("SHA-1", data)).slice(0, 16);
  hash[6] = ((hash[6] as number) & 0x0f) | 0x50;
  hash[8] = ((hash[8] as number) & 0x3f) | 0x80;
  return hex(hash).replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/** 256 bits. Each UUID has 122 random ones. */
export const randomToken = async ({ uuid }: Pick<Environment, "uuid">): Promise<string> =>
  hex(await digest("SHA-256", bytesOf([uuid(), uuid(), uuid()].join())));

/** What the store has of a token. */
export const hashOf = async (token: string): Promise<string> => hex(await digest("SHA-256", bytesOf(token)));

/** The URL of an event on the server at `base`. */
export const eventUrlAt = (base: string, token: string): string => `${base}/greenroom/events/${token}`;
