export const initUsage = "";
export function init(_args: readonly string[]): void {}
