import type { NextConfig } from "next";

const config: NextConfig = {
  // It is loaded as it is, once, and not bundled.
  serverExternalPackages: ["greenroom"],
  // Compression is for a proxy, which leaves event streams out of it.
  compress: false,
};
export default config;
