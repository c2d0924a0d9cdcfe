/** Branches of the playbook that the cases reach: in its graph, in its text, and as a list. */
import { useMemo } from "react";

import type { Schemas } from "../../../api/client";
import { Empty } from "../../../design/Empty";
import { Table } from "../../../design/Table";
import CodeView from "../../code/CodeView";
import { chartOf, shapeOf } from "../../graph/flowchart";
import GraphView from "../../graph/GraphView";

export function Coverage({ answer, text }: { answer: Schemas["TestsAnswer"]; text: string }) {
  const chart = useMemo(() => chartOf(answer), [answer]);
  const shape = useMemo(() => shapeOf(chart), [chart]);
  const { lines, steps, arcs } = useMemo(() => reachedIn(answer), [answer]);
  const missed = answer.branches.filter((branch) => !branch.taken);
  return (
    <>
      <h2>Coverage</h2>
      <GraphView identity={shape} chart={chart} reached={steps} taken={arcs} select={() => undefined} />
      <section className="card card-flush" aria-label="Not reached">
        {missed.length === 0 ? (
          <Empty title="The cases reach every branch." />
        ) : (
          <Table
            label="Branches that no case reaches"
            rows={missed}
            rowKey={(branch) => `${branch.line}:${branch.column} ${branch.kind}`}
            columns={[
              { title: "Line", cell: (branch) => branch.line, numeric: true },
              { title: "No case reaches", cell: (branch) => branch.what },
              { title: "Kind", cell: (branch) => branch.kind },
            ]}
          />
        )}
      </section>
      <p className="muted small">In the text, lines with a branch that no case reaches are shaded; reached ones have a bar.</p>
      <CodeView
        label="Text of the playbook with coverage"
        identity={`${text} ${missed.map(({ line }) => line).join()}`}
        text={text}
        reached={lines}
      />
    </>
  );
}

/** Lines, steps by name, and arcs by their number in the graph. */
export function reachedIn({ branches, nodes, edges }: Pick<Schemas["TestsAnswer"], "branches" | "nodes" | "edges">) {
  const lines = new Map<number, boolean>();
  const places = new Map<string, boolean>();
  for (const { line, column, taken } of branches) {
    lines.set(line, (lines.get(line) ?? true) && taken);
    const place = `${line}:${column}`;
    places.set(place, (places.get(place) ?? false) || taken);
  }
  const steps = new Map<string, boolean>();
  for (const { name, line, column } of nodes) {
    const taken = places.get(`${line}:${column}`);
    if (taken !== undefined) steps.set(name, taken);
  }
  const arcs = new Set(edges.flatMap(({ line, column }, index) => (places.get(`${line}:${column}`) ? [`a${index}`] : [])));
  return { lines, steps, arcs };
}
