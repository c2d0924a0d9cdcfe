import { readdirSync, readFileSync } from "node:fs";
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

const TESTS = readdirSync(new URL("src", import.meta.url), { recursive: true, encoding: "utf8" })
  .filter((file) => /\.test\.tsx?$/.test(file))
  .map((file) => `src/${file}`);

/** Whether a file of tests replaces modules, globals or the clock: no other file may see that. */
function isApart(file: string): boolean {
  return /\bvi\.(mock|stubGlobal|useFakeTimers)\(/.test(readFileSync(new URL(file, import.meta.url), "utf8"));
}

/** Whether a file of tests needs a document. */
function hasPage(file: string): boolean {
  return readFileSync(new URL(file, import.meta.url), "utf8").startsWith("// @vitest-environment jsdom");
}

const SHARED = TESTS.filter((file) => !isApart(file));

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
    pool: "threads",
    projects: [
      // To start a thread and to read jsdom and the modules for each file takes longer than all of these tests.
      { extends: true, test: { name: "shared", environment: "node", isolate: false, include: SHARED.filter((file) => !hasPage(file)) } },
      { extends: true, test: { name: "page", environment: "jsdom", isolate: false, include: SHARED.filter(hasPage) } },
      { extends: true, test: { name: "apart", environment: "node", include: TESTS.filter(isApart) } },
    ],
  },
});
