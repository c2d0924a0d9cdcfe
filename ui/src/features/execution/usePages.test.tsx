// @vitest-environment jsdom
import { act } from "react";
import { createRoot } from "react-dom/client";
import { afterEach, expect, test, vi } from "vitest";

import { type HistoryPage, usePages } from "./usePages";

const hints = vi.hoisted(() => new Set<(change: { topic: string }) => void>());
vi.mock("../../api/live/hub", () => ({
  onChange: (listener: (change: { topic: string }) => void) => {
    hints.add(listener);
    return () => hints.delete(listener);
  },
}));
(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

const TOPIC = "execution:1";
const root = createRoot(document.body);
afterEach(() => act(() => root.unmount()));

test("what happens while a page is read is read after it", async () => {
  const stored = ["begun"];
  const answers: (() => void)[] = [];
  const readPage = (after = "0") =>
    new Promise<HistoryPage<string>>((resolve) => {
      const items = stored.slice(Number(after));
      answers.push(() => resolve({ items, next: String(Number(after) + items.length), complete: false }));
    });
  let shown: string[] = [];
  const Shown = () => {
    shown = usePages(TOPIC, 10, readPage).items;
    return null;
  };
  const answer = () => act(async () => answers.at(-1)?.());
  await act(async () => root.render(<Shown />));
  // The answer is on its way when the execution ends; no other hint follows.
  stored.push("completed");
  act(() => hints.forEach((hint) => hint({ topic: TOPIC })));
  await answer();
  await answer();
  expect(shown).toEqual(["begun", "completed"]);
  await answer();
  expect(answers).toHaveLength(2);
});
