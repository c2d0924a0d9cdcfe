/** Processor time of a page: other than a clock it does not count what runs beside it. */
import type { Page } from "@playwright/test";

/** Milliseconds of processor time that the page's thread takes while something is done. */
export async function processorTimeOf(page: Page, act: () => Promise<unknown>): Promise<number> {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const taken = async () => {
    const { metrics } = await session.send("Performance.getMetrics");
    return metrics.find(({ name }) => name === "TaskDuration")?.value ?? 0;
  };
  const before = await taken();
  await act();
  const after = await taken();
  await session.detach();
  return (after - before) * 1000;
}
