/** Creates and hashes the tokens of waits. */
import type { Environment } from "../environment.ts";

const toHex = (bytes: Uint8Array): string => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");

const sha256 = async (text: string): Promise<string> =>
  toHex(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))));

/** Returns a token of 256 bits. Each UUID has 122 random bits. */
export const randomToken = async ({ uuid }: Pick<Environment, "uuid">): Promise<string> =>
  sha256([uuid(), uuid(), uuid()].join());

/** Returns the SHA-256 of a token in hexadecimal. The storage never holds the token. */
export const hashToken = (token: string): Promise<string> => sha256(token);

export const buildEventUrl = (base: string, token: string): string => `${base}/greenroom/events/${token}`;
