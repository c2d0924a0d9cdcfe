/** Positions of nodes: layers from top to bottom. */
import { Graph, layout } from "@dagrejs/dagre";

import type { Flowchart } from "./flowchart";
import { type Layout, NODE_HEIGHT, NODE_WIDTH, SELF_ARC_PX } from "./sizes";

const LETTER_PX = 6;

export function layOut(chart: Pick<Flowchart, "nodes" | "arcs">): Layout {
  const graph = new Graph();
  graph.setGraph({ rankdir: "TB", nodesep: 32, ranksep: 56 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const { id } of chart.nodes) graph.setNode(id, { width: NODE_WIDTH, height: NODE_HEIGHT });
  for (const { source, target, label } of chart.arcs) {
    // The room beside a node for its loop and the words at it.
    const room = source === target ? { width: SELF_ARC_PX + label.length * LETTER_PX, height: NODE_HEIGHT / 2, labelpos: "c" } : {};
    graph.setEdge(source, target, room);
  }
  layout(graph);
  return Object.fromEntries(
    chart.nodes.map(({ id }) => {
      const { x = 0, y = 0 } = graph.node(id) as { x?: number; y?: number };
      return [id, { x: x - NODE_WIDTH / 2, y: y - NODE_HEIGHT / 2 }];
    }),
  );
}
