import "@xyflow/react/dist/style.css";
import "./graph.css";

import { Background, Controls, type Edge, MarkerType, type Node, type NodeHandle, Position, ReactFlow, useReactFlow, useStore } from "@xyflow/react";
import { useLayoutEffect, useMemo } from "react";

import { useTheme } from "../../app/preferences";
import { Loaded } from "../../design/Loaded";
import type { Flowchart } from "./flowchart";
import { viewOf } from "./frame";
import { type Layout, NODE_HEIGHT, NODE_WIDTH } from "./sizes";
import type { NodeState } from "./overlay";
import { SelfArc } from "./SelfArc";
import { StepNode, type StepNodeData } from "./StepNode";
import { useLayout } from "./useLayout";
import { useWalk } from "./walk";

const MARGIN_PX = 72;
/** Boxes of known sizes: without them React Flow draws every node once to measure it. */
const BOX = {
  width: NODE_WIDTH,
  height: NODE_HEIGHT,
  // Else the button that shows all counts only the nodes that were drawn.
  measured: { width: NODE_WIDTH, height: NODE_HEIGHT },
  handles: [
    { type: "target", position: Position.Top, x: NODE_WIDTH / 2, y: 0 },
    { type: "source", position: Position.Bottom, x: NODE_WIDTH / 2, y: NODE_HEIGHT },
  ] satisfies NodeHandle[],
};
const NODE_TYPES = { step: StepNode };
const EDGE_TYPES = { self: SelfArc };
const NO_STATES: ReadonlyMap<string, NodeState> = new Map();
const NONE_TAKEN: ReadonlySet<string> = new Set();

interface GraphProps {
  identity: string;
  chart: Flowchart;
  states?: ReadonlyMap<string, NodeState>;
  /** The arcs over which tokens came. */
  taken?: ReadonlySet<string>;
  /** Steps by name, and whether a case of the tests entered them. */
  reached?: ReadonlyMap<string, boolean>;
  selected?: string;
  select: (step: string) => void;
}

export default function GraphView(props: GraphProps) {
  const layout = useLayout(props.identity, props.chart);
  return (
    <div className="graph" role="group" aria-label="Graph of the steps">
      <Loaded query={layout}>
        {(positions) => (
          <div style={{ height: `min(${heightOf(positions)}px, 65vh)` }}>
            <Drawn {...props} positions={positions} />
          </div>
        )}
      </Loaded>
    </div>
  );
}

/** Room for the whole graph with a margin; a tall one is zoomed. */
function heightOf(positions: Layout): number {
  return Math.max(...Object.values(positions).map(({ y }) => y), 0) + NODE_HEIGHT + 2 * MARGIN_PX;
}

function Drawn({ chart, states = NO_STATES, taken = NONE_TAKEN, reached, selected, select, positions }: GraphProps & { positions: Layout }) {
  const theme = useTheme();
  const walk = useWalk(chart, positions);
  const nodes = useMemo(
    () =>
      chart.nodes.map(
        (step): Node<StepNodeData> => ({
          id: step.id,
          type: "step",
          ...BOX,
          position: positions[step.id] ?? { x: 0, y: 0 },
          data: { step, state: states.get(step.name), reached: reached?.get(step.name), selected: step.name === selected, select: () => select(step.name) },
        }),
      ),
    [chart, states, reached, selected, select, positions],
  );
  const edges = useMemo(
    () => chart.arcs.map(
      (arc): Edge => ({
        id: arc.id,
        source: arc.source,
        target: arc.target,
        type: arc.source === arc.target ? "self" : undefined,
        label: arc.label || undefined,
        className: `arc-${arc.kind}${taken.has(arc.id) ? " arc-taken" : ""}`,
        markerEnd: { type: MarkerType.ArrowClosed, color: taken.has(arc.id) ? "var(--good)" : "var(--line-strong)" },
        focusable: false,
      }),
    ),
    [chart, taken],
  );
  return (
    <ReactFlow
      {...walk}
      nodes={nodes}
      edges={edges}
      nodeTypes={NODE_TYPES}
      edgeTypes={EDGE_TYPES}
      colorMode={theme}
      minZoom={0.1}
      nodesDraggable={false}
      nodesConnectable={false}
      nodesFocusable={false}
      elementsSelectable={false}
      onlyRenderVisibleElements
      preventScrolling={false}
      zoomOnScroll={false}
      proOptions={{ hideAttribution: true }}
    >
      <Place chart={chart} positions={positions} />
      <Background />
      <Controls orientation="horizontal" showInteractive={false} fitViewOptions={{ maxZoom: 1 }} />
    </ReactFlow>
  );
}

/** Place the graph in its frame, and again when that gets another width, as on a telephone that is turned. */
function Place({ chart, positions }: { chart: Flowchart; positions: Layout }) {
  const width = useStore((state) => state.width);
  const height = useStore((state) => state.height);
  const { setViewport } = useReactFlow();
  useLayoutEffect(() => {
    if (width > 0 && height > 0) void setViewport(viewOf(chart, positions, { width, height }));
  }, [width, height, setViewport, chart, positions]);
  return null;
}
