/** The step runs as a table: all that the graph and the timeline draw. */
import { useNavigate } from "@tanstack/react-router";

import { Empty } from "../../design/Empty";
import { Moment } from "../../design/Moment";
import { Status } from "../../design/Status";
import { Table } from "../../design/Table";
import { durationText } from "../../design/time";
import { ExecutionLink } from "./Header";
import { LoopProgress } from "./LoopProgress";
import type { StepRun } from "./queries";
import { sumsText } from "./timeline/phases";

export function StepsTable({ steps }: { steps: StepRun[] }) {
  const navigate = useNavigate({ from: "/executions/$id" });
  if (steps.length === 0) return <Empty title="No step has begun." />;
  return (
    <section className="card card-flush">
      <Table
        label="Step runs"
        rows={steps}
        rowKey={(step) => String(step.run)}
        columns={[
          { title: "Run", numeric: true, share: 0.6, cell: (step) => step.run },
          {
            title: "Step",
            share: 2,
            cell: (step) => (
              <button
                type="button"
                className="step-button"
                onClick={() => void navigate({ search: (before) => ({ ...before, run: step.run }), resetScroll: false })}
              >
                {step.step}
              </button>
            ),
          },
          { title: "Status", cell: (step) => <Status of={step.status} /> },
          { title: "Detail", share: 3, cell: (step) => <Detail step={step} /> },
          { title: "Started", share: 1.8, cell: (step) => <Moment at={step.started_at} precise /> },
          { title: "Duration", numeric: true, cell: (step) => durationText(step.duration_ms) },
        ]}
      />
    </section>
  );
}

function Detail({ step }: { step: StepRun }) {
  const message = (step.error as { message?: string } | null | undefined)?.message;
  return (
    <div className="wide small">
      {step.loop ? <LoopProgress loop={step.loop} /> : null}
      {(step.attempts ?? 1) > 1 ? <span>{step.attempts} calls</span> : null}
      {step.cached_from ? (
        <span>
          cached, from <ExecutionLink id={step.cached_from} />
        </span>
      ) : null}
      {step.child_execution_id ? (
        <span>
          child <ExecutionLink id={step.child_execution_id} />
        </span>
      ) : null}
      {step.until ? (
        <span>
          until <Moment at={step.until} />
        </span>
      ) : null}
      {(step.phases?.length ?? 0) > 1 ? <span>{sumsText(step)}</span> : null}
      {message ? <span>{message}</span> : null}
    </div>
  );
}
