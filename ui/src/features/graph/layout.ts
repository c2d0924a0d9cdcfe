/** Positions of nodes: layers from top to bottom. */
import { Graph, layout } from "@dagrejs/dagre";

import type { Flowchart } from "./flowchart";
import { type Layout, NODE_HEIGHT, NODE_WIDTH } from "./sizes";

export function layOut(chart: Pick<Flowchart, "nodes" | "arcs">): Layout {
  const graph = new Graph();
  graph.setGraph({ rankdir: "TB", nodesep: 32, ranksep: 56 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const { id } of chart.nodes) graph.setNode(id, { width: NODE_WIDTH, height: NODE_HEIGHT });
  for (const { source, target } of chart.arcs) graph.setEdge(source, target);
  layout(graph);
  return Object.fromEntries(
    chart.nodes.map(({ id }) => {
      const { x = 0, y = 0 } = graph.node(id) as { x?: number; y?: number };
      return [id, { x: x - NODE_WIDTH / 2, y: y - NODE_HEIGHT / 2 }];
    }),
  );
}
