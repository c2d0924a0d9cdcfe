/** The playbook's graph with what this execution has done; the table below says the same. */
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback } from "react";

import { Loaded } from "../../design/Loaded";
import type { TabProps } from "./ExecutionPage";
import { executionGraphOf, type StepRun } from "./queries";
import { StepPanel } from "./StepPanel";
import { StepsGraph } from "./StepsGraph";
import { StepsTable } from "./StepsTable";
import { usePast, useSteps } from "./usePast";

export default function GraphTab({ execution }: TabProps) {
  const id = execution.execution_id;
  const steps = useSteps(id);
  const { at, query: past } = usePast(id);
  const graph = useQuery(executionGraphOf(id));
  const { run } = useSearch({ from: "/shell/executions/$id" });
  const navigate = useNavigate({ from: "/executions/$id" });
  const select = useCallback(
    (chosen: StepRun | undefined) => void navigate({ search: (before) => ({ ...before, run: chosen?.run }), resetScroll: false }),
    [navigate],
  );
  const picked = steps.data?.find((step) => step.run === run);
  return (
    <>
      <div className={picked ? "two" : "stack"}>
        <Loaded query={graph}>
          {(answer) => (
            <StepsGraph
              graph={answer}
              past={at === undefined ? undefined : past.data}
              steps={steps.data ?? []}
              selected={picked?.step}
              select={select}
            />
          )}
        </Loaded>
        {picked ? <StepPanel key={picked.run} executionId={id} step={picked} /> : null}
      </div>
      <Loaded query={steps}>{(runs) => <StepsTable steps={runs} />}</Loaded>
    </>
  );
}
