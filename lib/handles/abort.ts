/** Stops waiting when a signal aborts. */

/**
 * Settles as the promise does. When the signal aborts first, or is aborted already, calls `leave` and rejects with the reason
 * of the signal; the work of the promise continues.
 */
export async function waitUnlessAborted<Value>(
  promise: Promise<Value>,
  signal: AbortSignal | undefined,
  leave?: () => void,
): Promise<Value> {
  if (!signal) return await promise;
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  /** Calls `leave`, then rejects `aborted` with the reason of the signal. */
  const onAbort = (): void => {
    leave?.();
    reject(signal.reason);
  };
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
