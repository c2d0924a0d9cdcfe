import type { KeyboardEvent } from "react";
import { expect, test, vi } from "vitest";

import { stops } from "./stops";

test.each([
  ["ArrowRight", 50, 51],
  ["ArrowLeft", 50, 49],
  ["ArrowLeft", 0, 0],
  ["ArrowRight", 99, 99],
  ["PageUp", 50, 60],
  ["PageDown", 5, 0],
  ["Home", 50, 0],
  ["End", 50, 99],
])("%s at %d of a hundred goes to %d", (key, at, next) => {
  const go = vi.fn();
  const preventDefault = vi.fn();
  stops({ label: "", count: 100, at, text: "", go }).onKeyDown({ key, preventDefault } as unknown as KeyboardEvent);
  expect(go).toHaveBeenCalledExactlyOnceWith(next);
  expect(preventDefault).toHaveBeenCalledOnce();
});

test("other keys, and keys of the browser, do what they do", () => {
  const go = vi.fn();
  const preventDefault = vi.fn();
  const { onKeyDown } = stops({ label: "", count: 100, at: 5, text: "", go });
  onKeyDown({ key: "Tab", preventDefault } as unknown as KeyboardEvent);
  onKeyDown({ key: "ArrowLeft", altKey: true, preventDefault } as unknown as KeyboardEvent);
  expect(go).not.toHaveBeenCalled();
  expect(preventDefault).not.toHaveBeenCalled();
});
