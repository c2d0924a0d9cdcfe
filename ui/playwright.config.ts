import { defineConfig } from "@playwright/test";

/** Chromium of the system: nothing is downloaded, and nothing but this machine is asked. */
export default defineConfig({
  testDir: "e2e",
  testMatch: "*.spec.ts",
  // Each worker has a server of its own; tests of one file may run in both.
  workers: 2,
  fullyParallel: true,
  // How long to wait at most: a machine that is busy with other tests is slow, and nothing waits when all is well.
  timeout: 180_000,
  expect: { timeout: 60_000 },
  reporter: [["list"]],
  outputDir: "test-results",
  use: {
    viewport: { width: 1440, height: 900 },
    trace: "retain-on-failure",
    launchOptions: {
      executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
      args: [
        ...(process.getuid?.() === 0 ? ["--no-sandbox"] : []),
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-gpu",
      ],
    },
  },
});
