/** Rounds milliseconds to three decimals, which spans have. */
export const roundMs = (ms: number): number => Math.round(ms * 1000) / 1000;
