/** A playbook's graph with the states of an execution's step runs. */
import { useCallback, useMemo } from "react";

import type { Schemas } from "../../api/client";
import { chartOf, shapeOf } from "../graph/flowchart";
import GraphView from "../graph/GraphView";
import { statesOf, takenArcs } from "../graph/overlay";
import type { PastState, StepRun } from "./queries";

export function StepsGraph({
  graph,
  past,
  steps,
  selected,
  select,
}: {
  graph: Schemas["ExecutionGraphAnswer"];
  past?: PastState;
  steps: StepRun[];
  selected?: string;
  /** `name`: the step that was chosen, which perhaps never ran. */
  select: (latest: StepRun | undefined, name: string) => void;
}) {
  const drawn = past && past.nodes.length > 0 ? past : graph;
  const chart = useMemo(() => chartOf(drawn), [drawn]);
  const shape = useMemo(() => shapeOf(chart), [chart]);
  const states = useMemo(() => statesOf(steps), [steps]);
  const counts = (past ?? graph).taken;
  const taken = useMemo(() => takenArcs(counts), [counts]);
  const choose = useCallback(
    (name: string) => {
      // A playbook that is called stands for the step that calls it.
      const called = chart.nodes.find((node) => node.kind === "playbook" && node.name === name);
      const caller = called && chart.arcs.find(({ kind, target }) => kind === "calls" && target === called.id)?.source;
      const step = caller === undefined ? name : chart.nodes.find(({ id }) => id === caller)?.name;
      select(states.get(step ?? name)?.latest, step ?? name);
    },
    [chart, select, states],
  );
  return <GraphView identity={shape} chart={chart} states={states} taken={taken} selected={selected} select={choose} />;
}
