/** What an execution is and why it is where it is. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { Facts } from "../../design/Facts";
import { Moment } from "../../design/Moment";
import { Note } from "../../design/Note";
import { Status } from "../../design/Status";
import { durationText } from "../../design/time";
import { CallbackList } from "../approvals/CallbackList";
import type { TabProps } from "./ExecutionPage";
import { childrenOf, executionOf } from "./queries";
import { RoundsDialog } from "./RoundsDialog";
import { elapsedMs } from "./rounds";
import { whyOf } from "./why";

export function Header({ execution }: TabProps) {
  const id = execution.execution_id;
  const version = execution.version ?? undefined;
  const children = useQuery(childrenOf(id));
  const { dataUpdatedAt: readAt } = useQuery(executionOf(id));
  const why = whyOf(execution);
  return (
    <section className="card stack" aria-label="Summary">
      <div className="row">
        <Status of={execution.status} />
        <span className="mono">{id}</span>
      </div>
      {why ? (
        <Note tone={why.tone}>
          <p>{why.text}</p>
          {why.hint ? <p className="small">{why.hint}</p> : null}
          {why.line === undefined ? null : (
            <p className="small">
              <Link to="/executions/$id" params={{ id }} search={{ view: "code" }}>
                line {why.line}, column {why.column}
              </Link>
            </p>
          )}
        </Note>
      ) : null}
      {execution.awaiting && execution.awaiting.length > 0 ? <CallbackList executionId={id} /> : null}
      <Facts
        of={[
          [
            "Playbook",
            <Link key="playbook" to="/playbooks/$" params={{ _splat: execution.path }} search={{ version }}>
              {execution.path}
              {version === undefined ? "" : `@${version}`}
            </Link>,
          ],
          ["Started", <Moment key="started" at={execution.started_at} />],
          ["Ended", execution.ended_at === null ? null : <Moment key="ended" at={execution.ended_at} />],
          ["At work", <AtWork key="work" execution={execution} />],
          [execution.ended_at === null ? "Since the start" : "Start to end", durationText(elapsedMs(execution, readAt))],
          ["Rounds", <Rounds key="rounds" execution={execution} />],
          ["Started by", execution.principal],
          ["Labels", labelsOf(execution.labels)],
          ["Parent", execution.parent_execution_id ? <ExecutionLink id={execution.parent_execution_id} /> : null],
          [
            "Children",
            children.data && children.data.executions.length > 0 ? (
              <Link to="/executions" search={{ parent: id }}>
                {children.data.executions.length}
                {children.data.next ? " and more" : ""}
              </Link>
            ) : null,
          ],
        ]}
      />
      {execution.unreadable && execution.unreadable.length > 0 ? (
        <Note tone="bad">
          <p>Rows that cannot be read: {execution.unreadable.join(", ")}</p>
        </Note>
      ) : null}
    </section>
  );
}

/** How long it was at work, without pauses, waits for people and times, and what lies between an end and a redrive. */
function AtWork({ execution }: TabProps) {
  const { active_seconds: seconds = execution.duration_ms / 1000 } = execution;
  return (
    <span title="Without pauses, without waits for people, times and locks, and without the time between an end and a redrive">
      {durationText(seconds * 1000)}
    </span>
  );
}

function Rounds({ execution }: TabProps) {
  const [open, setOpen] = useState(false);
  const rounds = execution.rounds ?? 0;
  if (rounds === 0) return <>1</>;
  return (
    <>
      <button type="button" className="step-button" aria-haspopup="dialog" onClick={() => setOpen(true)}>
        {rounds + 1}, redriven {rounds === 1 ? "once" : `${rounds} times`}
      </button>
      {open ? <RoundsDialog execution={execution} close={() => setOpen(false)} /> : null}
    </>
  );
}

function labelsOf(labels: Record<string, string> | undefined): string {
  return Object.entries(labels ?? {})
    .map(([name, value]) => `${name}=${value}`)
    .join(", ");
}

export function ExecutionLink({ id }: { id: string }) {
  return (
    <Link className="mono" to="/executions/$id" params={{ id }}>
      {id}
    </Link>
  );
}
