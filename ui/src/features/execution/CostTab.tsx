/** What each step cost: calls of tools, the time that they took, and what tasks added to `ctx.cost`. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import type { Schemas } from "../../api/client";
import { Empty } from "../../design/Empty";
import { Facts } from "../../design/Facts";
import { Check } from "../../design/Field";
import { Loaded } from "../../design/Loaded";
import { Note } from "../../design/Note";
import { type Column, Table } from "../../design/Table";
import { durationText } from "../../design/time";
import type { TabProps } from "./ExecutionPage";
import { costOf, familyCostOf } from "./queries";

type StepCost = Schemas["StepCost"];
type PlaybookCost = Schemas["PlaybookCost"];

export default function CostTab({ execution }: TabProps) {
  const query = useQuery(costOf(execution));
  const [family, setFamily] = useState(false);
  return (
    <div className="stack">
      <Loaded query={query}>{(cost) => <Cost of={cost} />}</Loaded>
      <div className="row spread">
        <p className="small">Retries, pages and compensations count as calls.</p>
        <Check label="Add up sub-executions" value={family} onChange={setFamily} />
      </div>
      {family ? <Family id={execution.execution_id} /> : null}
    </div>
  );
}

function Family({ id }: { id: string }) {
  const query = useQuery(familyCostOf(id));
  return (
    <Loaded query={query} lines={4}>
      {({ family, complete }) => (
        <section className="stack" aria-label="Sub-executions">
          <h2>With its sub-executions</h2>
          <Totals of={family} />
          {complete ? null : <Partly />}
          <div className="card card-flush">
            {family?.playbooks.length ? (
              <Table label="Cost by playbook" rows={family.playbooks} rowKey={(one) => one.path} columns={ofPlaybooks(family)} />
            ) : (
              <Empty title="It has started no other execution." />
            )}
          </div>
        </section>
      )}
    </Loaded>
  );
}

function ofPlaybooks({ tool_ms, cost }: Schemas["FamilyCost"]): Column<PlaybookCost>[] {
  return [
    { title: "Playbook", share: 2, cell: (one) => one.path },
    { title: "Executions", numeric: true, cell: (one) => count(one.executions ?? 0) },
    ...amounts<PlaybookCost>(tool_ms, cost !== null),
  ];
}

function Cost({ of: cost }: { of: Schemas["CostView"] }) {
  return (
    <div className="stack">
      <Totals of={cost} />
      {cost.complete ? null : <Partly />}
      <section className="card card-flush">
        {cost.steps.length === 0 ? (
          <Empty title="No step has begun." />
        ) : (
          <Table label="Cost by step" rows={cost.steps} rowKey={(step) => step.step} columns={ofSteps(cost)} />
        )}
      </section>
    </div>
  );
}

type Amounts = Pick<StepCost, "calls" | "tool_ms" | "cost">;

function Totals({ of: sums }: { of: Amounts | null | undefined }) {
  if (!sums) return null;
  return (
    <Facts
      of={[
        ["Calls of tools", count(sums.calls ?? 0)],
        ["Their time", durationText(sums.tool_ms ?? 0)],
        ["ctx.cost", typeof sums.cost === "number" ? amount(sums.cost) : null],
      ]}
    />
  );
}

function Partly() {
  return (
    <Note tone="warn">
      <p>Not everything is added up: there is more than one look takes, or something that cannot be read.</p>
    </Note>
  );
}

function ofSteps({ tool_ms, cost }: Schemas["CostView"]): Column<StepCost>[] {
  return [
    { title: "Step", share: 2, cell: (step) => step.step },
    { title: "Runs", numeric: true, cell: (step) => count(step.runs ?? 0) },
    { title: "Items", numeric: true, cell: (step) => (step.items ? count(step.items) : "–") },
    ...amounts<StepCost>(tool_ms, cost !== null),
  ];
}

/** The columns that every table of costs has. */
function amounts<Row extends Amounts>(whole: number, priced: boolean): Column<Row>[] {
  const shown: Column<Row>[] = [
    { title: "Calls", numeric: true, cell: (row) => count(row.calls ?? 0) },
    { title: "Tool time", numeric: true, cell: (row) => durationText(row.tool_ms ?? 0) },
    { title: "Share of the time", share: 1.6, cell: (row) => <Share of={row.tool_ms ?? 0} whole={whole} /> },
  ];
  if (priced) shown.push({ title: "ctx.cost", numeric: true, cell: (row) => amount(row.cost) });
  return shown;
}

function Share({ of: part, whole }: { of: number; whole: number }) {
  const percent = whole > 0 ? (100 * part) / whole : 0;
  return (
    <span className="share">
      <span className="progress progress-share" aria-hidden="true">
        <span style={{ width: `${percent}%` }} />
      </span>
      <span className="small">{percent > 0 && percent < 1 ? "< 1" : Math.round(percent)} %</span>
    </span>
  );
}

const count = (value: number) => value.toLocaleString("en-US");

function amount(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : value.toLocaleString("en-US", { maximumSignificantDigits: 10 });
}
