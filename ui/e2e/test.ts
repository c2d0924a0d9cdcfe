/** Tests with a server, its UI, and a page on which any violation of the security policy fails the test. */
import { fileURLToPath } from "node:url";

import { test as base } from "@playwright/test";

import { type Proxy, startProxy } from "./proxy.mjs";
import { Server } from "./server";

export const DIST = fileURLToPath(new URL("../dist", import.meta.url));

export const test = base.extend<{ policy: void }, { server: Server; ui: Proxy }>({
  server: [
    async ({}, use) => {
      const server = await Server.start();
      await use(server);
      await server.stop();
    },
    { scope: "worker", timeout: 120_000 },
  ],
  ui: [
    async ({ server }, use) => {
      const ui = await startProxy({ dist: DIST, api: server.address, token: server.token });
      await use(ui);
      ui.close();
    },
    { scope: "worker" },
  ],
  policy: [
    async ({ context }, use) => {
      const violations: string[] = [];
      await context.exposeFunction("reportViolation", (text: string) => violations.push(text));
      await context.addInitScript(() => {
        document.addEventListener("securitypolicyviolation", (event) => {
          const report = (globalThis as unknown as { reportViolation: (text: string) => void }).reportViolation;
          report(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`);
        });
      });
      const errors: string[] = [];
      context.on("weberror", (error) => errors.push(error.error().message));
      await use();
      test.expect(violations, "violations of the content security policy").toEqual([]);
      test.expect(errors, "errors of the page").toEqual([]);
    },
    { auto: true },
  ],
});

export { expect } from "@playwright/test";
