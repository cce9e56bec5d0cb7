// Makes tests run with other versions of packages: `node --import ./test/versions/use.mjs --test …`. What the package.json in the
// folder that GREENROOM_TEST_VERSIONS names depends on is imported from there, by everything that is no installed package itself.
import { readFileSync } from "node:fs";
import { registerHooks } from "node:module";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

const manifest = resolve(process.env.GREENROOM_TEST_VERSIONS ?? "node_modules/.lowest", "package.json");
const replaced = new Set(Object.keys(JSON.parse(readFileSync(manifest, "utf8")).dependencies));
const from = pathToFileURL(manifest).href;

registerHooks({
  resolve(specifier, context, next) {
    const name = /^(?:@[^/]+\/)?[^/]+/.exec(specifier)?.[0] ?? "";
    const installed = context.parentURL?.includes("/node_modules/") ?? false;
    return next(specifier, replaced.has(name) && !installed ? { ...context, parentURL: from } : context);
  },
});
