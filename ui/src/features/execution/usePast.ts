/** The moment of the history that the page shows, and what the execution was then. */
import { keepPreviousData, useQuery, type UseQueryResult } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";

import { pastOf, phasesOf, type StepRun, stepsOf } from "./queries";

export function usePast(id: string) {
  const { at } = useSearch({ from: "/shell/executions/$id" });
  const query = useQuery({ ...pastOf(id, at ?? ""), enabled: at !== undefined, placeholderData: keepPreviousData });
  return { at, query };
}

/** The step runs at the moment that is shown; now, with their phases where these are wanted. */
export function useSteps(id: string, phases = false): UseQueryResult<StepRun[]> {
  const { at } = useSearch({ from: "/shell/executions/$id" });
  const past = useQuery({
    ...pastOf(id, at ?? ""),
    enabled: at !== undefined,
    placeholderData: keepPreviousData,
    select: (moment) => moment.steps,
  });
  const now = useQuery({ ...(phases ? phasesOf(id) : stepsOf(id)), enabled: at === undefined, select: (page) => page.steps });
  return at === undefined ? now : past;
}
