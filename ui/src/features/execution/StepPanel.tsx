/** The step run that is selected: its facts, its error, its result on request. */
import { Link, useNavigate, useSearch } from "@tanstack/react-router";

import { lazy, Suspense } from "react";

import type { Json } from "../../api/json";
import { Button } from "../../design/Button";
import { Facts } from "../../design/Facts";
import { Icon } from "../../design/Icon";
import { JsonTree } from "../../design/JsonTree";
import { Moment } from "../../design/Moment";
import { Skeleton } from "../../design/Skeleton";
import { Status } from "../../design/Status";
import { durationText } from "../../design/time";
import { ExecutionLink } from "./Header";
import { LoopItems } from "./LoopItems";
import { LoopProgress } from "./LoopProgress";
import type { StepRun } from "./queries";
import { StepResult } from "./StepResult";
import { useOpened } from "./useOpened";

const ChildGraph = lazy(() => import("./ChildGraph"));

export function StepPanel({ executionId, step }: { executionId: string; step: StepRun }) {
  const navigate = useNavigate({ from: "/executions/$id" });
  const { at } = useSearch({ from: "/shell/executions/$id" });
  const { opened, toggle } = useOpened();
  // What it had done at a moment of the past is not known here.
  const child = at === undefined ? step.child_execution_id : null;
  const isOpen = child != null && opened.includes(child);
  return (
    <section className="card stack" aria-label={`Step ${step.step}, run ${step.run}`}>
      <div className="row spread">
        <h2>{step.step}</h2>
        <Button
          look="plain"
          label="Close"
          onPress={() => void navigate({ search: (before) => ({ ...before, run: undefined }), resetScroll: false })}
        >
          <Icon name="cross" />
        </Button>
      </div>
      <Status of={step.status} />
      <Facts
        of={[
          ["Run", step.run],
          ["Started", <Moment key="started" at={step.started_at} precise />],
          ["Duration", durationText(step.duration_ms)],
          ["Calls", (step.attempts ?? 1) > 1 ? step.attempts : null],
          ["Cached, from", step.cached_from ? <ExecutionLink id={step.cached_from} /> : null],
          ["Waits until", step.until ? <Moment key="until" at={step.until} /> : null],
          ["Child", step.child_execution_id ? <ExecutionLink id={step.child_execution_id} /> : null],
          ["Items", step.loop ? <LoopProgress key="loop" loop={step.loop} /> : null],
        ]}
      />
      {step.loop && at === undefined ? <LoopItems executionId={executionId} step={step} /> : null}
      {child ? (
        <>
          <div>
            <Button pressed={isOpen} onPress={() => toggle(child)}>
              Graph of the child
            </Button>
          </div>
          <Suspense fallback={<Skeleton lines={4} />}>{isOpen ? <ChildGraph id={child} /> : null}</Suspense>
        </>
      ) : null}
      {step.error ? (
        <div>
          <h3>Error</h3>
          <JsonTree label="error" value={step.error as Json} />
        </div>
      ) : null}
      <p>
        <Link from="/executions/$id" search={(before) => ({ ...before, view: "logs", step: step.step, ofRun: step.run, at: undefined })}>
          What it has printed
        </Link>
      </p>
      <StepResult executionId={executionId} step={step.step} />
    </section>
  );
}
