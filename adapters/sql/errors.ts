/** Classifies the errors of drivers and databases. */

/** Returns true for the error of a file that is damaged or no database. */
export function isDamageError(error: unknown): boolean {
  const { code, errcode, message } = error as { code?: unknown; errcode?: unknown; message?: unknown };
  return (
    errcode === 11 ||
    errcode === 26 ||
    /^SQLITE_(CORRUPT|NOTADB)/.test(String(code)) ||
    /not a database|disk image is malformed/.test(String(message))
  );
}

/** Returns true for the error of a write to files that are damaged, unreadable or read-only. */
export function isUnwritableError(error: unknown): boolean {
  const { code, errcode, message } = error as { code?: unknown; errcode?: unknown; message?: unknown };
  const primary = typeof errcode === "number" ? errcode & 0xff : 0;
  return (
    isDamageError(error) ||
    [8, 10, 14].includes(primary) ||
    /^SQLITE_(READONLY|IOERR|CANTOPEN)/.test(String(code)) ||
    /readonly database|disk I\/O error|unable to open database/.test(String(message))
  );
}

/** Returns true for the error of a write to a full disk: the batch had no effect. */
export function isDiskFullError(error: unknown): boolean {
  const { code, errcode, message } = error as { code?: unknown; errcode?: unknown; message?: unknown };
  return (
    errcode === 13 || code === "SQLITE_FULL" || code === "53100" || /database or disk is full/.test(String(message))
  );
}

/** True for the error of a batch that a failed assertion has rolled back. */
export const isFailedAssertion = (error: unknown): boolean =>
  /\bassertion_holds\b/.test(String((error as { message?: unknown }).message));

/** True for the error of a driver that refuses text with U+0000, which its database cannot store: the batch had no effect. */
export function isUnstorableTextError(error: unknown): boolean {
  return /\bU\+0000\b/.test(String((error as { message?: unknown }).message));
}
