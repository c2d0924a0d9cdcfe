/** The graph of a sub-execution within the page of the one that started it; its steps lead to its own page. */
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useCallback } from "react";

import { useTopic } from "../../api/live/useLive";
import { Loaded } from "../../design/Loaded";
import { executionGraphOf, type StepRun, stepsOf } from "./queries";
import { StepsGraph } from "./StepsGraph";

export default function ChildGraph({ id }: { id: string }) {
  useTopic(`execution:${id}`);
  const graph = useQuery(executionGraphOf(id));
  const steps = useQuery(stepsOf(id));
  const navigate = useNavigate();
  const select = useCallback(
    (chosen: StepRun | undefined) => void navigate({ to: "/executions/$id", params: { id }, search: { run: chosen?.run } }),
    [navigate, id],
  );
  return (
    <Loaded query={steps}>
      {({ steps: runs }) => <Loaded query={graph}>{(answer) => <StepsGraph graph={answer} steps={runs} select={select} />}</Loaded>}
    </Loaded>
  );
}
