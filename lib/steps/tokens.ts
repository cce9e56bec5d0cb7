/** Tokens of calls, and their hashes. */
import type { Environment } from "../environment.ts";

const toHex = (bytes: Uint8Array): string => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");

const sha256 = async (text: string): Promise<string> =>
  toHex(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))));

/** 256 bits. Each UUID has 122 random ones. */
export const randomToken = async ({ uuid }: Pick<Environment, "uuid">): Promise<string> =>
  sha256([uuid(), uuid(), uuid()].join());

/** What the store has of a token. */
export const hashToken = (token: string): Promise<string> => sha256(token);

/** The URL of an event on the server at `base`. */
export const buildEventUrl = (base: string, token: string): string => `${base}/greenroom/events/${token}`;
