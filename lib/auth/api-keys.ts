/**
 * Makes and checks API keys: `<prefix>_<pt|sk>_<32 hex>_<10 hex>`, 128 random bits and a checksum. Keys are stored as their SHA-256:
 * 128 random bits cannot be guessed, so a slow hash is not needed.
 */
import type { KeyKind } from "../storage/identity.ts";

/** The default prefix of keys. */
export const KEY_PREFIX = "gr";

const SECRET = 32;
const CHECKSUM = 10;
/** A key without its prefix. */
const SHAPE = /^_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}$/;

/**
 * Makes a new key. `draw` returns a random UUID (version 4) from a cryptographic source. One UUID has only 122 random bits, so the key
 * takes 128 bits of the hash of two.
 */
export async function makeKey(prefix: string, kind: KeyKind, draw: () => string): Promise<string> {
  const random = await sha256(`${draw()}${draw()}`);
  const body = `${prefix}_${kind}_${random.slice(0, SECRET)}`;
  return `${body}_${await checksumOf(body)}`;
}

/** The public form of a key: prefix, kind and the last digits. */
export function shortKey(key: string, digits = 4): string {
  return `${key.slice(0, -(SECRET + 1 + CHECKSUM))}...${key.slice(-digits)}`;
}

/** The stored form of a key: SHA-256 in hex. */
export function hashKey(key: string): Promise<string> {
  return sha256(key);
}

/** True for a key with this prefix and a valid checksum. Other text cannot be a key and needs no lookup. */
export async function checksumFits(key: string, prefix: string): Promise<boolean> {
  if (!key.startsWith(prefix) || !SHAPE.test(key.slice(prefix.length))) return false;
  const body = key.slice(0, -(CHECKSUM + 1));
  // Both sides come from the request, so the comparison time reveals no secret.
  return key.slice(-CHECKSUM) === (await checksumOf(body));
}

async function checksumOf(body: string): Promise<string> {
  return (await sha256(body)).slice(0, CHECKSUM);
}

async function sha256(text: string): Promise<string> {
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
