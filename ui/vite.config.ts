import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { brotliCompressSync, gzipSync } from "node:zlib";

import react from "@vitejs/plugin-react";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

const SMALLEST = 1_024;

/** Put compressed forms beside each file, for servers that send files as they are. */
function precompress(): Plugin {
  return {
    name: "precompress",
    apply: "build",
    async writeBundle({ dir }) {
      const folder = dir ?? "dist";
      for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
        const path = join(entry.parentPath, entry.name);
        if (!entry.isFile() || !/\.(js|css|html|svg)$/.test(entry.name)) continue;
        const content = await readFile(path);
        if (content.length < SMALLEST) continue;
        await writeFile(`${path}.gz`, gzipSync(content, { level: 9 }));
        await writeFile(`${path}.br`, brotliCompressSync(content));
      }
    },
  };
}

export default defineConfig({
  // Relative addresses: one build runs under any prefix, which `<base href>` of index.html names.
  base: "./",
  plugins: [react(), precompress()],
  build: {
    target: "es2022",
    manifest: true,
    // The content security policy allows no inline data but images.
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 900,
  },
  worker: { format: "es" },
  test: {
    // A file that needs a page names jsdom in its first line: making one takes longer than all of its tests.
    environment: "node",
    pool: "threads",
    include: ["src/**/*.test.ts", "src/**/*.test.tsx"],
  },
});
