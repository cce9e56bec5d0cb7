/**
 * API keys: `<prefix>_<pt|sk>_<32 hex>_<10 hex>`. The 32 digits are 128 random bits, the last 10 a checksum. A key is stored as
 * its SHA-256: that many random bits cannot be guessed from it, so no slow hash is needed.
 */
import type { KeyKind } from "../storage/identity.ts";

/** What keys start with where nothing else is configured. */
export const KEY_PREFIX = "gr";

const SECRET = 32;
const CHECKSUM = 10;
/** Of what is left without the prefix and the kind. */
const SHAPE = /^_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}$/;

/**
 * A new key. `draw` gives a random UUID (version 4) from a cryptographic source. One holds 122 random bits: too few, so two are
 * drawn, and half of the hash of both is taken.
 */
export async function makeKey(prefix: string, kind: KeyKind, draw: () => string): Promise<string> {
  const random = await sha256(`${draw()}${draw()}`);
  const body = `${prefix}_${kind}_${random.slice(0, SECRET)}`;
  return `${body}_${await checksumOf(body)}`;
}

/** The form that may be shown: prefix, kind and the last digits. */
export function shortKey(key: string, digits = 4): string {
  return `${key.slice(0, -(SECRET + 1 + CHECKSUM))}...${key.slice(-digits)}`;
}

/** What is stored of a key: SHA-256, hex. */
export function hashKey(key: string): Promise<string> {
  return sha256(key);
}

/** True for a key of this prefix whose checksum is right. Anything else was never made here: it needs no look-up. */
export async function checksumFits(key: string, prefix: string): Promise<boolean> {
  if (!key.startsWith(prefix) || !SHAPE.test(key.slice(prefix.length))) return false;
  const body = key.slice(0, -(CHECKSUM + 1));
  // Both sides are made of what was sent: how long comparing takes tells nothing.
  return key.slice(-CHECKSUM) === (await checksumOf(body));
}

async function checksumOf(body: string): Promise<string> {
  return (await sha256(body)).slice(0, CHECKSUM);
}

async function sha256(text: string): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
