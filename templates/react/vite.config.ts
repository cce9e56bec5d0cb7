import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

/** Where the agents are: `greenroom dev --run` sets the variable, because another program may have the port. */
const server = process.env.GREENROOM_URL ?? "http://127.0.0.1:2024";
const proxy = {
  "/api": { target: server, ws: true, rewrite: (path: string) => path.replace(/^\/api/, "") },
};

export default defineConfig({
  root: "web",
  plugins: [react()],
  build: { outDir: "../dist", emptyOutDir: true },
  server: { proxy },
  preview: { proxy },
});
