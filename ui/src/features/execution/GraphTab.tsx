/** The playbook's graph with what this execution has done; the table below says the same. */
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useMemo } from "react";

import type { Schemas } from "../../api/client";
import { Loaded } from "../../design/Loaded";
import { chartOf, shapeOf } from "../graph/flowchart";
import GraphView from "../graph/GraphView";
import { statesOf, takenArcs } from "../graph/overlay";
import type { TabProps } from "./ExecutionPage";
import { executionGraphOf, type PastState, type StepRun } from "./queries";
import { StepPanel } from "./StepPanel";
import { StepsTable } from "./StepsTable";
import { usePast, useSteps } from "./usePast";

export default function GraphTab({ execution }: TabProps) {
  const id = execution.execution_id;
  const steps = useSteps(id);
  const { at, query: past } = usePast(id);
  const graph = useQuery(executionGraphOf(id));
  const { run } = useSearch({ from: "/shell/executions/$id" });
  const picked = steps.data?.find((step) => step.run === run);
  return (
    <>
      <div className={picked ? "two" : "stack"}>
        <Loaded query={graph}>
          {(answer) => (
            <Drawing
              graph={answer}
              past={at === undefined ? undefined : past.data}
              steps={steps.data ?? []}
              selected={picked?.step}
            />
          )}
        </Loaded>
        {picked ? <StepPanel key={picked.run} executionId={id} step={picked} /> : null}
      </div>
      <Loaded query={steps}>{(runs) => <StepsTable steps={runs} />}</Loaded>
    </>
  );
}

function Drawing({
  graph,
  past,
  steps,
  selected,
}: {
  graph: Schemas["ExecutionGraphAnswer"];
  past: PastState | undefined;
  steps: StepRun[];
  selected: string | undefined;
}) {
  const navigate = useNavigate({ from: "/executions/$id" });
  const drawn = past && past.nodes.length > 0 ? past : graph;
  const chart = useMemo(() => chartOf(drawn), [drawn]);
  const shape = useMemo(() => shapeOf(chart), [chart]);
  const states = useMemo(() => statesOf(steps), [steps]);
  const counts = (past ?? graph).taken;
  const taken = useMemo(() => takenArcs(counts), [counts]);
  const select = useCallback(
    (name: string) => void navigate({ search: (before) => ({ ...before, run: states.get(name)?.latest.run }), resetScroll: false }),
    [navigate, states],
  );
  return <GraphView identity={shape} chart={chart} states={states} taken={taken} selected={selected} select={select} />;
}
