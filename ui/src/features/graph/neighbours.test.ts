import { expect, test } from "vitest";

import type { GraphArc } from "./flowchart";
import { type Arrow, neighbourOf } from "./neighbours";

const arc = (text: string): GraphArc => {
  const [source = "", target = ""] = text.split(">");
  return { id: text, source, target, kind: "arc", label: "" };
};
const ARCS = ["start>left", "start>middle", "start>right", "left>end", "right>end", "left>left", "end>start"].map(arc);
const POSITIONS = {
  start: { x: 200, y: 0 },
  left: { x: 0, y: 100 },
  middle: { x: 200, y: 100 },
  right: { x: 400, y: 100 },
  apart: { x: 600, y: 100 },
  end: { x: 200, y: 200 },
};
const from = (id: string, arrow: Arrow) => neighbourOf({ arcs: ARCS }, POSITIONS, id, arrow);

test("up and down lead along arcs, to the sides lead to steps of the same one", () => {
  expect(from("start", "ArrowDown")).toBe("middle");
  expect(from("left", "ArrowDown")).toBe("end");
  expect(from("end", "ArrowUp")).toBe("left");
  expect(from("middle", "ArrowUp")).toBe("start");
  expect(from("left", "ArrowRight")).toBe("middle");
  expect(from("right", "ArrowLeft")).toBe("middle");
});

test("where nothing is connected, the key leads nowhere", () => {
  expect(from("right", "ArrowRight")).toBeUndefined();
  expect(from("start", "ArrowUp")).toBeUndefined();
  expect(from("middle", "ArrowDown")).toBeUndefined();
  expect(from("apart", "ArrowLeft")).toBeUndefined();
});
