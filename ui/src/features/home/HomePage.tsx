import "./home.css";

import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { api, read } from "../../api/client";
import { useScope } from "../../app/SessionContext";
import { Page } from "../../app/Page";
import { Button } from "../../design/Button";
import { COPIES } from "../../design/copies";
import { CopyAs } from "../../design/CopyAs";
import { Empty } from "../../design/Empty";
import { Moment } from "../../design/Moment";
import { Status } from "../../design/Status";
import { approvals } from "../approvals/queries";
import { ScheduledFor } from "../approvals/ScheduledFor";
import { limitsQuery } from "../limits/queries";
import { playbookPages } from "../playbooks/queries";
import { schedulesQuery } from "../schedules/queries";
import { queuesQuery } from "../workers/queries";
import { fullLimits, nextRuns, stuckWork } from "./attention";
import { Example } from "./Example";
import { Panel } from "./Panel";
import { failuresQuery } from "./queries";
import { markSeen, seenUntil, useSeen } from "./seen";
import { Trend } from "./Trend";

const MOST_WAITING = 6;
const MOST_NEXT = 6;
const MOST_LIVE = 6;

export default function HomePage() {
  const playbooks = useQuery(playbookPages());
  return (
    <Page title="Home" actions={<CopyAs of={COPIES.home} />}>
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
        <Stuck />
        <Limits />
        <DeadLetters />
        <Next />
        <Trend />
        <Running />
      </div>
    </Page>
  );
}

function Failures() {
  const seen = useSeen();
  const since = seenUntil(seen, Date.now());
  const query = useQuery(failuresQuery(since));
  const [first] = query.data?.failures ?? [];
  return (
    <Panel
      title="Failures"
      about={
        <>
          {seen ? "since you marked them as seen, " : "since "}
          <Moment at={since} />
        </>
      }
      more={
        <>
          {first ? (
            <Button look="plain" onPress={() => markSeen(Date.now())}>
              Mark as seen
            </Button>
          ) : null}
          <Link to="/executions" search={{ status: "failed" }}>
            All failures
          </Link>
        </>
      }
      query={query}
      items={(answer) => answer.failures}
      itemKey={(group) => `${group.path} ${group.code}`}
      nothing="Nothing failed."
    >
      {(group) => (
        <>
          <span className="row">
            <Status of="failed" word={String(group.count)} />
            <Link to="/executions" search={{ status: "failed", path: group.path, error_code: group.code }}>
              {group.path}
            </Link>
            <span className="mono small">{group.code}</span>
          </span>
          <span className="small">
            {group.count > 1 ? (
              <>
                first <Moment at={group.first_at} relative />,{" "}
              </>
            ) : null}
            latest{" "}
            <Link to="/executions/$id" params={{ id: group.latest }} search={{ view: "why" }}>
              <Moment at={group.last_at} relative />
            </Link>
          </span>
        </>
      )}
    </Panel>
  );
}

function Stuck() {
  const query = useQuery(queuesQuery());
  return (
    <Panel
      title="Does not move"
      more={<Link to="/workers">Workers</Link>}
      query={query}
      items={stuckWork}
      itemKey={(stuck) => stuck.key}
      nothing="Every command finds a worker."
    >
      {(stuck) => (
        <>
          <span className="mono">{stuck.what}</span>
          <Status of="warning" word={stuck.why} />
        </>
      )}
    </Panel>
  );
}

function Waiting() {
  const allowed = useScope("execute");
  const query = useInfiniteQuery({ ...approvals(), enabled: allowed });
  if (!allowed) return null;
  return (
    <Panel
      title="Waiting for an answer"
      more={<Link to="/approvals">Approvals</Link>}
      query={query}
      items={(answer) => answer.pages.flatMap((page) => page.callbacks).slice(0, MOST_WAITING)}
      itemKey={(callback) => callback.token}
      nothing="Nothing waits for a person."
    >
      {(callback) => (
        <>
          <Link to="/executions/$id" params={{ id: callback.execution_id }}>
            {callback.message || `${callback.path}: ${callback.step}`}
          </Link>
          <span className="small">
            <ScheduledFor of={callback} />
          </span>
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
      more={<Link to="/dead-letters">Reasons</Link>}
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
