/**
 * Synthetic traces, in order of time, as columns: one year, workspaces of very different size, a few projects, users and keys
 * each, some of them null, and many moments at the very edge of an hour. The same seed gives the same traces.
 */
export const WORKSPACES = 50;
const PROJECTS = 4;
const USERS = 40;
const KEYS = 5;
const HOUR = 3_600_000;
export const FROM = Date.UTC(2025, 0, 1);
export const TO = Date.UTC(2026, 0, 1);

/** Integers below a bound, always the same ones. */
export function dice(seed) {
  let state = seed >>> 0 || 1;
  return (bound) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) % bound;
  };
}

/** Columns of `count` traces, with room for `more`. Users and keys are numbers from 1 on; 0 stands for null. */
export function generate(count, extraCount, seed) {
  const room = count + extraCount;
  const traces = {
    length: count,
    started_at: new Float64Array(room),
    workspace: new Uint8Array(room),
    project: new Uint8Array(room),
    user: new Uint8Array(room),
    api_key: new Uint8Array(room),
  };
  const below = dice(seed);
  const step = (TO - FROM) / count;
  for (let i = 0; i < count; i++) fill(traces, i, Math.floor(FROM + i * step), below);
  return traces;
}

/** Adds `count` traces at any time, as late commits are. */
export function addLate(traces, count, seed) {
  const below = dice(seed);
  for (let i = 0; i < count; i++) {
    const at = FROM + below(8760) * HOUR + below(HOUR);
    fill(traces, traces.length + i, at, below);
  }
  traces.length += count;
}

function fill(traces, i, at, below) {
  const hour = Math.floor(at / HOUR) * HOUR;
  const edge = below(20);
  traces.started_at[i] = edge === 0 ? hour : edge === 1 ? hour + HOUR - 1 : at;
  // The smaller of two: the first workspaces have most of the traces.
  traces.workspace[i] = Math.min(below(WORKSPACES), below(WORKSPACES));
  traces.project[i] = below(PROJECTS);
  traces.user[i] = Math.min(below(USERS), below(USERS));
  traces.api_key[i] = below(KEYS);
}

/** Ids as they are stored. */
export const names = {
  workspace: (traces, i) => workspaceName(traces.workspace[i]),
  project: (traces, i) => `p${traces.workspace[i]}-${traces.project[i]}`,
  user: (traces, i) => (traces.user[i] === 0 ? null : `u${traces.user[i]}`),
  api_key: (traces, i) => (traces.api_key[i] === 0 ? null : `k${traces.workspace[i]}-${traces.api_key[i]}`),
};

export const workspaceName = (number) => `w${String(number).padStart(2, "0")}`;
