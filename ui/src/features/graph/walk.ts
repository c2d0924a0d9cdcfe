/** Arrow keys move the focus from step to step; one that is not in sight is moved there. */
import type { ReactFlowInstance } from "@xyflow/react";
import { type KeyboardEvent, useRef } from "react";

import type { Flowchart } from "./flowchart";
import { type Arrow, ARROWS, neighbourOf } from "./neighbours";
import { type Layout, NODE_HEIGHT, NODE_WIDTH } from "./sizes";

type Flow = Pick<ReactFlowInstance, "getZoom" | "setCenter">;

/** What the frame of a graph listens with. */
export function useWalk(chart: Flowchart, positions: Layout) {
  const flow = useRef<Flow>(null);
  return {
    onInit: (instance: Flow) => {
      flow.current = instance;
    },
    onKeyDown: (event: KeyboardEvent<HTMLElement>) => {
      const id = (event.target as Element).closest(".react-flow__node")?.getAttribute("data-id");
      if (!id || !(ARROWS as readonly string[]).includes(event.key)) return;
      event.preventDefault();
      const next = neighbourOf(chart, positions, id, event.key as Arrow);
      if (next !== undefined) void go(next, event.currentTarget, positions, flow.current);
    },
  };
}

async function go(id: string, frame: HTMLElement, positions: Layout, flow: Flow | null): Promise<void> {
  const buttonOf = () => frame.querySelector<HTMLElement>(`.react-flow__node[data-id="${CSS.escape(id)}"] .graph-node`);
  const button = buttonOf();
  if (button && isWithin(button, frame)) return button.focus({ preventScroll: true });
  const { x, y } = positions[id] ?? { x: 0, y: 0 };
  await flow?.setCenter(x + NODE_WIDTH / 2, y + NODE_HEIGHT / 2, { zoom: flow.getZoom() });
  // A step out of sight is drawn only now.
  await new Promise(requestAnimationFrame);
  buttonOf()?.focus({ preventScroll: true });
}

function isWithin(inner: Element, outer: Element): boolean {
  const [one, other] = [inner.getBoundingClientRect(), outer.getBoundingClientRect()];
  return one.left >= other.left && one.right <= other.right && one.top >= other.top && one.bottom <= other.bottom;
}
