// The server and the processes of the Postgres bench, and the table that it prints.
import { spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import pg from "pg";
import { startPostgres } from "../../test/support/postgres-server.ts";
import { connect, cpuMs } from "../load.mjs";

const children = new Set();
process.on("exit", () => {
  for (const child of children) child.kill("SIGKILL");
});
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));

function launch(program, args) {
  const flags = ["--no-warnings", "--conditions=greenroom-source", join(import.meta.dirname, program)];
  const child = spawn(process.execPath, [...flags, ...args.map(String)], { stdio: ["ignore", "pipe", "inherit"] });
  children.add(child);
  const ended = new Promise((resolve) => child.on("exit", resolve)).then(() => children.delete(child));
  return { child, ended };
}

/** Starts a process and resolves once it listens. */
export function start(url, signals, concurrency) {
  const { child, ended } = launch("node.mjs", [url, signals, concurrency]);
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("exit", (code) => reject(new Error(`A process ended with ${code}`)));
    child.stdout.on("data", (text) => {
      const [, at] = /listening on (\S+)/.exec(String(text)) ?? [];
      if (!at) return;
      resolve({
        url: at,
        pid: child.pid,
        client: connect(at),
        async stop() {
          const late = setTimeout(() => child.kill("SIGKILL"), 10_000);
          child.kill("SIGTERM");
          await ended;
          clearTimeout(late);
        },
      });
    });
  });
}

/** Runs a program of this folder to its end; it prints JSON. */
export async function program(name, ...args) {
  const { child, ended } = launch(name, args);
  let text = "";
  child.stdout.on("data", (chunk) => {
    text += chunk;
  });
  await ended;
  if (child.exitCode !== 0) throw new Error(`${name} ended with ${child.exitCode}`);
  return JSON.parse(text);
}

const rows = [];
export const outcome = { failed: false };
const formatFigure = (number, unit) => `${number < 10 ? number.toFixed(2) : Math.round(number)}${unit && ` ${unit}`}`;
/** Adds a row to the table. `limit` is the minimum (`least`) or the maximum of the value. */
export function note(figure, value, unit = "", limit = undefined, least = false) {
  const met = limit === undefined || (least ? value >= limit : value <= limit);
  outcome.failed ||= !met;
  const goal = limit === undefined ? "" : `${least ? ">=" : "<="} ${formatFigure(limit, unit)}`;
  rows.push(`| ${figure} | ${formatFigure(value, unit)} | ${goal} | ${met ? "ok" : "FAILED"} |`);
}
export const table = () => ["| figure | value | limit | |", "| --- | --- | --- | --- |", ...rows].join("\n");

// As a server of its own would have it: the default is for tests.
const settings = ["shared_buffers=512MB", "max_wal_size=8GB", "maintenance_work_mem=512MB"];
export const server = await startPostgres({ own: true, settings });
export const database = async (name) => {
  const { url } = await server.database();
  return `${url}?application_name=${name}`;
};
export async function query(url, text) {
  const client = new pg.Client({ connectionString: url, application_name: "bench" });
  await client.connect();
  try {
    return (await client.query({ text, rowMode: "array" })).rows;
  } finally {
    await client.end();
  }
}
export const json = async (client, ...args) => JSON.parse(await client.request(...args));

const fields = (pid) => readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1).split(" ");

/** Gives a function for the CPU time of the whole server so far: its main process, ended sessions, and open ones. */
export async function serverCpu() {
  const [[folder]] = await query(server.url, "show data_directory");
  const main = Number(readFileSync(join(folder, "postmaster.pid"), "utf8").split("\n")[0]);
  return () => {
    const [user, system] = fields(main).slice(13, 15).map(Number);
    let ms = (user + system) * 10;
    for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
      try {
        if (Number(pid) === main || Number(fields(pid)[1]) === main) ms += cpuMs(pid);
      } catch {
        // It has ended: its parent has its time.
      }
    }
    return ms;
  };
}
