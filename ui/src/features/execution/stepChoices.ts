/** The steps that a filter offers. */
import { useQuery } from "@tanstack/react-query";

import { executionGraphOf } from "./queries";

/** Nodes of the graph that are no steps. */
const NO_STEPS = new Set(["undo", "playbook"]);

export function useStepNames(executionId: string): string[] {
  const graph = useQuery(executionGraphOf(executionId));
  return graph.data?.nodes.filter(({ kind }) => !NO_STEPS.has(kind)).map(({ name }) => name) ?? [];
}

/** Any, the known names, and the one of the link, which need not be known. */
export function choicesOf(known: string[], picked: string | undefined) {
  const names = [...new Set(picked === undefined ? known : [...known, picked])];
  return [{ value: "", label: "any" }, ...names.map((value) => ({ value, label: value }))];
}
