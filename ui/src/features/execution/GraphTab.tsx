/** The playbook's graph with what this execution has done; the table below says the same. */
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useState } from "react";

import { Loaded } from "../../design/Loaded";
import type { TabProps } from "./ExecutionPage";
import { executionGraphOf, type StepRun } from "./queries";
import { StepPanel } from "./StepPanel";
import { StepsGraph } from "./StepsGraph";
import { StepsTable } from "./StepsTable";
import { usePast, useSteps } from "./usePast";

/** Until when a step that was chosen has not run. */
function whenOf({ ended_at }: TabProps["execution"], at: string | undefined): string {
  if (at !== undefined) return "had not run at this moment";
  return ended_at === null ? "has not run yet" : "never ran in this execution";
}

function NeverRan({ step, when }: { step: string; when: string }) {
  return (
    <p role="status">
      Step <strong>{step}</strong> {when}.
    </p>
  );
}

export default function GraphTab({ execution }: TabProps) {
  const id = execution.execution_id;
  const steps = useSteps(id);
  const { at, query: past } = usePast(id);
  const graph = useQuery(executionGraphOf(id));
  const { run } = useSearch({ from: "/shell/executions/$id" });
  const navigate = useNavigate({ from: "/executions/$id" });
  const [chosenName, setChosenName] = useState<string>();
  const select = useCallback(
    (chosen: StepRun | undefined, name: string) => {
      setChosenName(name);
      void navigate({ search: (before) => ({ ...before, run: chosen?.run }), resetScroll: false });
    },
    [navigate],
  );
  const picked = steps.data?.find((step) => step.run === run);
  const idle = run === undefined && steps.data && !steps.data.some(({ step }) => step === chosenName) ? chosenName : undefined;
  return (
    <>
      <div className={picked ? "two" : "stack"}>
        <Loaded query={graph}>
          {(answer) => (
            <StepsGraph
              graph={answer}
              past={at === undefined ? undefined : past.data}
              steps={steps.data ?? []}
              selected={picked?.step ?? idle}
              select={select}
            />
          )}
        </Loaded>
        {idle === undefined ? null : <NeverRan step={idle} when={whenOf(execution, at)} />}
        {picked ? <StepPanel key={picked.run} executionId={id} step={picked} /> : null}
      </div>
      <Loaded query={steps}>{(runs) => <StepsTable steps={runs} />}</Loaded>
    </>
  );
}
