import { expect, test, vi } from "vitest";

const followed: { topics: string[]; listener: { state: (state: string) => void } }[] = [];
vi.mock("./source", () => ({
  follow: (topics: string[], _cursor: unknown, listener: { state: (state: string) => void }) => {
    followed.push({ topics, listener });
    return Promise.resolve();
  },
}));
vi.stubGlobal("document", { visibilityState: "visible", addEventListener: () => undefined });
vi.stubGlobal("addEventListener", () => undefined);
const leaders: (() => unknown)[] = [];
vi.stubGlobal("navigator", { locks: { request: (_name: string, lead: () => unknown) => (leaders.push(lead), new Promise(() => undefined)) } });

/** A tab of the browser; the first one leads. */
async function openTab() {
  vi.resetModules();
  const tab = await import("./hub");
  tab.startLive();
  if (leaders.length === 1) leaders[0]?.();
  return tab;
}

test("a second tab with the same topics knows the state, and many topics are cut to what the server takes", async () => {
  const first = await openTab();
  first.watchTopic("executions");
  await vi.waitFor(() => expect(followed).toHaveLength(1));
  followed[0]?.listener.state("streaming");

  const second = await openTab();
  second.watchTopic("executions");
  await vi.waitFor(() => expect(second.liveState()).toBe("streaming"));
  expect(followed).toHaveLength(1);

  for (let id = 1; id <= 100; id++) second.watchTopic(`execution:${id}`);
  await vi.waitFor(() => expect(followed).toHaveLength(2));
  expect(followed[1]?.topics).toHaveLength(64);
  expect(followed[1]?.topics).toContain("executions");
});
