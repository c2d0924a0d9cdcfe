/** The playbook's graph with what this execution has done; the table below says the same. */
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useMemo } from "react";

import { Loaded } from "../../design/Loaded";
import { readFlowchart } from "../graph/flowchart";
import GraphView from "../graph/GraphView";
import { statesOf } from "../graph/overlay";
import { graphOf } from "../playbooks/queries";
import type { TabProps } from "./ExecutionPage";
import { codeOf, type StepRun, stepsOf } from "./queries";
import { StepPanel } from "./StepPanel";
import { StepsTable } from "./StepsTable";

export default function GraphTab({ execution }: TabProps) {
  const steps = useQuery(stepsOf(execution.execution_id));
  return <Loaded query={steps}>{(page) => <Graph execution={execution} steps={page.steps} />}</Loaded>;
}

function Graph({ execution, steps }: TabProps & { steps: StepRun[] }) {
  const { run } = useSearch({ from: "/shell/executions/$id" });
  const navigate = useNavigate({ from: "/executions/$id" });
  const code = useQuery(codeOf(execution.execution_id, execution.path));
  const graph = useQuery({ ...graphOf(execution.path, code.data?.version), enabled: code.data !== undefined });
  const states = useMemo(() => statesOf(steps), [steps]);
  const picked = steps.find((step) => step.run === run);
  const select = useCallback(
    (name: string) => void navigate({ search: (before) => ({ ...before, run: states.get(name)?.latest.run }), resetScroll: false }),
    [navigate, states],
  );
  return (
    <>
      <div className={picked ? "two" : "stack"}>
        <Loaded query={graph}>
          {(answer) => (
            <Drawing text={answer.graph} version={answer.version} path={answer.path} states={states} selected={picked?.step} select={select} />
          )}
        </Loaded>
        {picked ? <StepPanel key={picked.run} executionId={execution.execution_id} step={picked} /> : null}
      </div>
      <StepsTable steps={steps} />
    </>
  );
}

function Drawing({
  text,
  path,
  version,
  ...rest
}: {
  text: string;
  path: string;
  version: number;
  states: ReturnType<typeof statesOf>;
  selected: string | undefined;
  select: (step: string) => void;
}) {
  const chart = useMemo(() => readFlowchart(text), [text]);
  return <GraphView identity={`${path}@${version}`} chart={chart} {...rest} />;
}
