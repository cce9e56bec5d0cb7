// Runs per second with one, two and four processes, beside the bare commits that as many processes get from the same server.
import { availableParallelism } from "node:os";
import { cpuMs, median } from "../load.mjs";
import { database, note, program, query, serverCpu, start } from "./context.mjs";

const CLIENTS = 64;
const SESSIONS = 10;
/** The number of worker slots. It exceeds the number of clients, because a run that waits for a slot is claimed by another path. */
const SLOTS = 200;

export async function scale({ rounds, seconds }) {
  const cpuOfServer = await serverCpu();
  const sides = {};
  for (const count of [1, 2, 4]) {
    const url = await database(`scale${count}`);
    const processes = [];
    for (let i = 0; i < count; i += 1) processes.push(await start(url, "on", SLOTS));
    await query(url, "create table bare (id text primary key, payload text not null)");
    sides[count] = { count, url, processes, runs: [], commits: [], cpu: [], server_cpu: [], cores: [] };
  }
  const load = async ({ count, processes }, time) => {
    const loops = processes.map(({ client }) => client.closedLoop(CLIENTS / count, time, client.wait));
    const all = await Promise.all(loops);
    return { n: all.reduce((sum, { n }) => sum + n, 0), per_s: all.reduce((sum, { per_s }) => sum + per_s, 0) };
  };
  for (const side of Object.values(sides)) await load(side, 2);
  for (let round = 0; round < Math.min(5, rounds); round += 1) {
    for (const side of Object.values(sides)) {
      const cpu = () => side.processes.reduce((sum, { pid }) => sum + cpuMs(pid), 0);
      const cpuBefore = process.cpuUsage();
      const before = { cpu: cpu(), server: cpuOfServer(), at: performance.now() };
      const { n, per_s } = await load(side, seconds);
      const { user, system } = process.cpuUsage(cpuBefore);
      const used = { cpu: cpu() - before.cpu, server: cpuOfServer() - before.server };
      side.runs.push(per_s);
      side.cpu.push(used.cpu / n);
      side.server_cpu.push(used.server / n);
      side.cores.push((used.cpu + used.server + (user + system) / 1000) / (performance.now() - before.at));
      const bare = Array.from({ length: side.count }, () => program("commits.mjs", side.url, SESSIONS, seconds));
      side.commits.push((await Promise.all(bare)).reduce((sum, { per_s }) => sum + per_s, 0));
    }
  }
  for (const { processes } of Object.values(sides)) for (const server of processes) await server.stop();
  for (const { count, runs, commits, cpu, server_cpu, cores } of Object.values(sides)) {
    const name = `${count} ${count === 1 ? "process" : "processes"}`;
    note(`${name}: runs`, median(runs), "/s");
    note(`${name}: bare commits`, median(commits), "/s");
    note(
      `${name}: commits of runs (two each) : bare commits`,
      median(runs.map((value, i) => (2 * value) / commits[i])),
    );
    note(`${name}: CPU of a run in Greenroom`, median(cpu), "ms");
    note(`${name}: CPU of a run in Postgres`, median(server_cpu), "ms");
    note(`${name}: cores used by Greenroom, Postgres and the clients`, median(cores));
  }
  const ratio = median(sides[2].runs.map((value, i) => value / sides[1].runs[i]));
  // Without cores that are free beside one process, a second one takes them from the first.
  const needed = 1.7 * median(sides[1].cores);
  const enough = needed <= availableParallelism();
  note("runs with two processes : with one", ratio, "", enough ? 1.7 : undefined, true);
  if (!enough) note("  not judged: cores needed for 1.7", needed);
}
