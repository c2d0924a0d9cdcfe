// @vitest-environment jsdom
import { act } from "react";
import { createRoot } from "react-dom/client";
import { expect, test, vi } from "vitest";

import { usePlace } from "./usePlace";

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

test("a late answer to an earlier move neither moves the slider back nor keeps the later move from the page", () => {
  vi.useFakeTimers();
  const root = createRoot(document.body);
  const went: number[] = [];
  let slider = { place: 0, move: (_fact: number) => {}, step: (_fact: number) => {} };
  const Slider = ({ at }: { at: number }) => {
    slider = usePlace(at, (fact) => went.push(fact));
    return null;
  };
  const answer = (at: number) => act(() => root.render(<Slider at={at} />));
  answer(100);
  act(() => slider.move(50));
  act(() => void vi.advanceTimersByTime(100));
  expect(went).toEqual([50]);
  act(() => slider.move(80));
  answer(50);
  expect(slider.place).toBe(80);
  act(() => void vi.advanceTimersByTime(100));
  expect(went).toEqual([50, 80]);
  answer(80);
  act(() => slider.step(79));
  answer(79);
  expect([slider.place, went]).toEqual([79, [50, 80, 79]]);
  // The page goes elsewhere, as with a link: the slider follows.
  answer(10);
  expect(slider.place).toBe(10);
  act(() => root.unmount());
  vi.useRealTimers();
});
