/** Where the graph stands in its frame at first: all of it while its texts can be read, and else its beginning. */
import type { Viewport } from "@xyflow/react";

import type { Flowchart } from "./flowchart";
import { type Layout, NODE_HEIGHT, NODE_WIDTH, reachOfSelfArc } from "./sizes";

/** Less makes the names of steps too small to read. */
export const LEAST_ZOOM = 0.6;
const PADDING_PX = 24;
/** Below the graph, for the buttons that zoom it: they cover no step of a graph that fits. */
export const BUTTONS_PX = 52;

interface Size {
  width: number;
  height: number;
}

export function viewOf(chart: Flowchart, positions: Layout, { width, height }: Size): Viewport {
  const placed = chart.nodes.map(({ id }) => positions[id] ?? { x: 0, y: 0 });
  const labels = chart.arcs
    .filter(({ source, target }) => source === target)
    .map(({ source, label }) => (positions[source]?.x ?? 0) + NODE_WIDTH + reachOfSelfArc(label ?? ""));
  const left = Math.min(...placed.map(({ x }) => x));
  const right = Math.max(...placed.map(({ x }) => x + NODE_WIDTH), ...labels);
  const top = Math.min(...placed.map(({ y }) => y));
  const bottom = Math.max(...placed.map(({ y }) => y + NODE_HEIGHT));
  const room = { width: width - 2 * PADDING_PX, height: height - PADDING_PX - BUTTONS_PX };
  const zoom = Math.min(1, Math.max(LEAST_ZOOM, Math.min(room.width / (right - left), room.height / (bottom - top))));
  const first = placed.reduce((one, other) => (other.y < one.y ? other : one));
  return {
    zoom,
    x: startOf(left * zoom, right * zoom, width, (first.x + NODE_WIDTH / 2) * zoom),
    y: startOf(top * zoom, bottom * zoom, height, top * zoom, BUTTONS_PX),
  };
}

/** How far to move what reaches from `low` to `high`: to the middle where it fits, and else so that `seen` is there without a gap at an edge. */
function startOf(low: number, high: number, size: number, seen: number, after = PADDING_PX): number {
  if (high - low <= size - PADDING_PX - after) return (size + PADDING_PX - after) / 2 - (low + high) / 2;
  return Math.min(PADDING_PX - low, Math.max(size - after - high, size / 2 - seen));
}
