import "./home.css";

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { api, read } from "../../api/client";
import { useScope } from "../../app/SessionContext";
import { Page } from "../../app/Page";
import { Empty } from "../../design/Empty";
import { Moment } from "../../design/Moment";
import { Status } from "../../design/Status";
import { approvals } from "../approvals/queries";
import { startedAfter } from "../executions/search";
import { limitsQuery } from "../limits/queries";
import { playbookPages } from "../playbooks/queries";
import { schedulesQuery } from "../schedules/queries";
import { queuesQuery } from "../workers/queries";
import { fullLimits, groupFailures, nextRuns } from "./attention";
import { Example } from "./Example";
import { Panel } from "./Panel";

const MOST_FAILURES = 500;
const MOST_NEXT = 6;
const MOST_LIVE = 6;

export default function HomePage() {
  const playbooks = useQuery(playbookPages());
  return (
    <Page title="Home">
      {playbooks.data?.length === 0 ? (
        <section className="card">
          <Empty title="This server has no playbook yet.">
            <p>
              Register one with <code>noetl register my.yaml</code>, or see one run.
            </p>
            <Example />
          </Empty>
        </section>
      ) : null}
      <div className="home">
        <Failures />
        <Waiting />
        <Running />
        <Next />
        <Limits />
        <DeadLetters />
      </div>
    </Page>
  );
}

function Failures() {
  const query = useQuery({
    queryKey: ["executions", "failures of a day"],
    queryFn: () =>
      read(
        api.GET("/api/executions", {
          params: { query: { status: "failed", started_after: startedAfter("24h", Date.now()), limit: MOST_FAILURES } },
        }),
      ),
  });
  return (
    <Panel
      title="Failed in the last 24 hours"
      more={
        <Link to="/executions" search={{ status: "failed", age: "24h" }}>
          All failures
        </Link>
      }
      query={query}
      items={(page) => groupFailures(page.executions)}
      itemKey={(group) => group.path}
      nothing="Nothing failed."
    >
      {(group) => (
        <>
          <span className="row">
            <Status of="failed" word={String(group.count)} />
            <Link to="/executions" search={{ status: "failed", path: group.path, age: "24h" }}>
              {group.path}
            </Link>
          </span>
          <span className="small">
            latest{" "}
            <Link to="/executions/$id" params={{ id: group.latest.execution_id }}>
              <Moment at={group.latest.ended_at ?? group.latest.started_at} relative />
            </Link>
          </span>
        </>
      )}
    </Panel>
  );
}

function Waiting() {
  const allowed = useScope("execute");
  const query = useQuery({ ...approvals(), enabled: allowed });
  if (!allowed) return null;
  return (
    <Panel
      title="Waiting for an answer"
      more={<Link to="/approvals">Approvals</Link>}
      query={query}
      items={(answer) => answer.open}
      itemKey={(approval) => approval.callback.token}
      nothing="Nothing waits for a person."
    >
      {({ executionId, path, callback }) => (
        <>
          <Link to="/executions/$id" params={{ id: executionId }}>
            {callback.message || `${path}: ${callback.step}`}
          </Link>
          <span className="small">
            <Moment at={callback.since} relative />
          </span>
        </>
      )}
    </Panel>
  );
}

function Running() {
  const query = useQuery({
    queryKey: ["executions", "newest"],
    queryFn: () => read(api.GET("/api/executions", { params: { query: { limit: MOST_LIVE } } })),
  });
  return (
    <Panel
      title="Latest executions"
      more={<Link to="/executions">All executions</Link>}
      query={query}
      items={(page) => page.executions}
      itemKey={(execution) => execution.execution_id}
      nothing="Nothing has run yet."
    >
      {(execution) => (
        <>
          <span className="row">
            <Status of={execution.status} />
            <Link to="/executions/$id" params={{ id: execution.execution_id }}>
              {execution.path}
            </Link>
          </span>
          <span className="small">
            <Moment at={execution.started_at} relative />
          </span>
        </>
      )}
    </Panel>
  );
}

function Next() {
  const query = useQuery(schedulesQuery());
  return (
    <Panel
      title="Next starts"
      more={<Link to="/schedules">Schedules</Link>}
      query={query}
      items={(schedules) => nextRuns(schedules, MOST_NEXT)}
      itemKey={(schedule) => schedule.name}
      nothing="Nothing starts by itself."
    >
      {(schedule) => (
        <>
          <Link to="/playbooks/$" params={{ _splat: schedule.path }}>
            {schedule.path}
          </Link>
          <span className="small">
            <Moment at={schedule.next_at} />
          </span>
        </>
      )}
    </Panel>
  );
}

function Limits() {
  const query = useQuery(limitsQuery());
  return (
    <Panel
      title="Limits at capacity"
      more={<Link to="/limits">Limits</Link>}
      query={query}
      items={fullLimits}
      itemKey={(limit) => limit.key}
      nothing="Every limit has room."
    >
      {(limit) => (
        <>
          <span className="mono">{limit.key}</span>
          <span className="small">
            {limit.in_use} of {limit.concurrent ?? "any"} in use, {limit.waiting} waiting
          </span>
        </>
      )}
    </Panel>
  );
}

function DeadLetters() {
  const query = useQuery(queuesQuery());
  return (
    <Panel
      title="Dead letters"
      more={<Link to="/workers">Queues</Link>}
      query={query}
      items={(answer) => answer.queues.filter((queue) => (queue.failed ?? 0) > 0)}
      itemKey={(queue) => queue.name}
      nothing="No message was given up."
    >
      {(queue) => (
        <>
          <span>{queue.name}</span>
          <Status of="failed" word={`${queue.failed} given up`} />
        </>
      )}
    </Panel>
  );
}
