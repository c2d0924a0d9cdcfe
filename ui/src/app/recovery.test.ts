import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { expect, test, vi } from "vitest";

import { followConnection } from "./recovery";

const live = vi.hoisted(() => ({ state: "streaming", listeners: new Set<() => void>() }));
vi.mock("../api/live/hub", () => ({
  liveState: () => live.state,
  onState: (listener: () => void) => {
    live.listeners.add(listener);
    return () => live.listeners.delete(listener);
  },
}));

async function become(state: string): Promise<void> {
  live.state = state;
  live.listeners.forEach((listener) => listener());
  await new Promise((resolve) => setTimeout(resolve));
}

test("a lost connection asks for the session; a regained one reads what could not be read, and nothing else", async () => {
  const client = new QueryClient({ defaultOptions: { queries: { retry: false, staleTime: Infinity } } });
  let away = false;
  const asked: string[] = [];
  for (const name of ["session", "kept", "failed"]) {
    const queryFn = () => {
      asked.push(name);
      return away && name !== "kept" ? Promise.reject(new Error("away")) : Promise.resolve(name);
    };
    new QueryObserver(client, { queryKey: [name], queryFn }).subscribe(() => undefined);
  }
  followConnection(client);
  await become("streaming");
  away = true;
  void client.refetchQueries({ queryKey: ["failed"] });
  asked.length = 0;
  await become("off");
  expect(asked).toEqual(["session"]);
  away = false;
  await become("streaming");
  expect(asked).toEqual(["session", "session", "failed"]);
  await become("polling");
  expect(asked).toHaveLength(3);
});
