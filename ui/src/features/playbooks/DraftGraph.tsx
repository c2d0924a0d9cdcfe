/** The graph of a text that is being written: that of the last text without errors, until the next one is laid out. */
import { lazy, Suspense, useRef, useState } from "react";

import type { Schemas } from "../../api/client";
import { Skeleton } from "../../design/Skeleton";
import { chartOf, type Flowchart, shapeOf } from "../graph/flowchart";
import { useLayout } from "../graph/useLayout";

const GraphView = lazy(() => import("../graph/GraphView"));

type Graph = Schemas["DraftGraph"];

interface Drawn {
  graph: Graph;
  chart: Flowchart;
  /** Graphs of one shape have one layout. */
  shape: string;
}

/** `graph`: of the text as the server last saw it; null where it has errors. `goTo`: show a line of the text. */
export function DraftGraph({ graph, goTo }: { graph: Graph | null; goTo: (line: number) => void }) {
  const valid = useLastValid(graph);
  if (valid === null) return null;
  return (
    <section className="stack draft-graph" aria-label="Graph of the text">
      <p className="muted small" role="status">
        {graph === null ? "The graph is that of the last text without errors." : "The graph is that of this text."}
      </p>
      <Placed wanted={valid} goTo={goTo} />
    </section>
  );
}

/** Drawn again once the layout is there: what is shown stays in its place until then. */
function Placed({ wanted, goTo }: { wanted: Drawn; goTo: (line: number) => void }) {
  const layout = useLayout(wanted.shape, wanted.chart);
  const shown = useRef<Drawn | null>(null);
  if (layout.data) shown.current = wanted;
  const [selected, setSelected] = useState<string>();
  if (shown.current === null) return <Skeleton lines={4} />;
  const { graph, chart, shape } = shown.current;
  const select = (step: string) => {
    setSelected(step);
    const line = graph.nodes.find(({ name }) => name === step)?.line ?? 0;
    if (line > 0) goTo(line);
  };
  return (
    <Suspense fallback={<Skeleton lines={4} />}>
      <GraphView identity={shape} chart={chart} selected={selected} select={select} />
    </Suspense>
  );
}

function useLastValid(graph: Graph | null): Drawn | null {
  const last = useRef<Drawn | null>(null);
  if (graph !== null && graph !== last.current?.graph) {
    const chart = chartOf(graph);
    last.current = { graph, chart, shape: `draft ${shapeOf(chart)}` };
  }
  return last.current;
}
