import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { root } from "../support/programs.ts";

const MAX_BYTES = 4 * 1024;

describe("greenroom/client", () => {
  it("has at most 4 KB, minified and gzipped, without the SDK, and nothing of the server", async () => {
    const { outputFiles, metafile } = await build({
      entryPoints: [join(root, "adapters/client.ts")],
      ...{ bundle: true, minify: true, format: "esm", platform: "browser", write: false, metafile: true },
      external: ["@langchain/langgraph-sdk"],
    });
    const [output] = outputFiles;
    assert.ok(output);
    const { length } = gzipSync(output.contents);
    assert.ok(length <= MAX_BYTES, `${length} bytes`);
    const foreign = Object.keys(metafile.inputs).filter(
      (path) => !/(^|\/)(lib\/(handles\/|json\.ts)|adapters\/client\.ts)/.test(path),
    );
    assert.deepEqual(foreign, []);
  });
});
