import { expect, test } from "vitest";

import type { Flowchart } from "./flowchart";
import { BUTTONS_PX, LEAST_ZOOM, viewOf } from "./frame";
import { type Layout, NODE_HEIGHT, NODE_WIDTH } from "./sizes";

const FRAME = { width: 1100, height: 400 };

function chartOf(positions: Layout, arcs: Flowchart["arcs"] = []): Flowchart {
  const nodes = Object.keys(positions).map((id) => ({ id, name: id, kind: "step", notes: [] }));
  return { nodes, arcs } as unknown as Flowchart;
}

/** Where a point of the graph is in the frame. */
const shown = (positions: Layout, id: string, chart = chartOf(positions)) => {
  const { x, y, zoom } = viewOf(chart, positions, FRAME);
  const place = positions[id] ?? { x: 0, y: 0 };
  return { left: place.x * zoom + x, right: (place.x + NODE_WIDTH) * zoom + x, top: place.y * zoom + y, bottom: (place.y + NODE_HEIGHT) * zoom + y };
};

test("a small graph is in the middle, as large as it is", () => {
  const positions = { start: { x: 0, y: 0 }, end: { x: 0, y: 128 } };
  expect(viewOf(chartOf(positions), positions, FRAME).zoom).toBe(1);
  expect(shown(positions, "start").left).toBe((FRAME.width - NODE_WIDTH) / 2);
});

test("a graph that is a little too large is zoomed until all of it is seen", () => {
  const positions = { start: { x: 600, y: 0 }, a: { x: 0, y: 128 }, b: { x: 1200, y: 128 } };
  expect(shown(positions, "a").left).toBeGreaterThanOrEqual(0);
  expect(shown(positions, "b").right).toBeLessThanOrEqual(FRAME.width);
});

test("a graph of many branches begins with its first step", () => {
  const branches = Object.fromEntries(Array.from({ length: 30 }, (_, at) => [`b${at}`, { x: at * 240, y: 128 }]));
  const positions: Layout = { start: { x: 15 * 240, y: 0 }, ...branches };
  expect(viewOf(chartOf(positions), positions, FRAME).zoom).toBe(LEAST_ZOOM);
  const start = shown(positions, "start");
  expect(start.left).toBeGreaterThan(0);
  expect(start.right).toBeLessThan(FRAME.width);
});

test("a long chain begins at its top", () => {
  const positions = Object.fromEntries(Array.from({ length: 500 }, (_, at) => [`s${at}`, { x: 0, y: at * 128 }]));
  expect(shown(positions, "s0").top).toBeGreaterThanOrEqual(0);
  expect(shown(positions, "s0").top).toBeLessThan(100);
});

test("the label of an arc of a step to itself has room", () => {
  const positions = { start: { x: 0, y: 0 } };
  const arc = { id: "a", source: "start", target: "start", label: "ctx.n < workload.count and ctx.n is defined", kind: "next" };
  const chart = chartOf(positions, [arc] as unknown as Flowchart["arcs"]);
  expect(shown(positions, "start", chart).left).toBeLessThan((FRAME.width - NODE_WIDTH) / 2);
});

test("the buttons cover no step of a graph that fits", () => {
  const positions = { start: { x: 0, y: 0 }, a: { x: 0, y: 128 }, b: { x: 0, y: 256 } };
  expect(shown(positions, "start").top).toBeGreaterThanOrEqual(0);
  expect(shown(positions, "b").bottom).toBeLessThanOrEqual(FRAME.height - BUTTONS_PX);
});
