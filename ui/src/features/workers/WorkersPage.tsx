import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import type { Schemas } from "../../api/client";
import { Page } from "../../app/Page";
import { COPIES } from "../../design/copies";
import { CopyAs } from "../../design/CopyAs";
import { Empty } from "../../design/Empty";
import { Loaded } from "../../design/Loaded";
import { Moment } from "../../design/Moment";
import { Note } from "../../design/Note";
import { Status } from "../../design/Status";
import { Table } from "../../design/Table";
import { durationText } from "../../design/time";
import { ExecutionLink } from "../execution/Header";
import { queuesQuery, workersQuery } from "./queries";

export default function WorkersPage() {
  const queues = useQuery(queuesQuery());
  const workers = useQuery(workersQuery());
  return (
    <Page
      title="Workers and queues"
      actions={
        <>
          <CopyAs of={COPIES.workers} />
          <Link className="button" to="/dead-letters">
            Dead letters
          </Link>
        </>
      }
    >
      <Loaded query={queues}>{(answer) => <Queues answer={answer} />}</Loaded>
      <Loaded query={workers}>{(answer) => <Workers workers={answer.workers} />}</Loaded>
    </Page>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className="stack" aria-label={title}>
      <h2>{title}</h2>
      <div className="card card-flush">{children}</div>
    </section>
  );
}

function Queues({ answer }: { answer: Schemas["QueuesAnswer"] }) {
  const dead = answer.queues.filter((queue) => (queue.failed ?? 0) > 0);
  return (
    <>
      {answer.partly ? (
        <Note tone="warn">
          <p>Some queues could not be read.</p>
        </Note>
      ) : null}
      {dead.length > 0 ? (
        <Note tone="bad">
          <p>Messages were given up: {dead.map((queue) => `${queue.failed} of ${queue.name}`).join(", ")}.</p>
          <p className="small">
            <Link to="/dead-letters">Dead letters</Link> names the causes, and sends them back.
          </p>
        </Note>
      ) : null}
      <Part title="Queues">
        <Table
          label="Queues"
          rows={answer.queues}
          rowKey={(queue) => queue.name}
          columns={[
            { title: "Queue", cell: (queue) => queue.name },
            { title: "Waiting", numeric: true, cell: (queue) => queue.waiting },
            { title: "In flight", numeric: true, cell: (queue) => queue.in_flight },
            { title: "Delayed", numeric: true, cell: (queue) => queue.delayed },
            { title: "Dead letters", numeric: true, cell: (queue) => queue.failed ?? 0 },
          ]}
        />
      </Part>
      <Part title="Commands by pool">
        {answer.pools.length === 0 ? (
          <Empty title="No command waits or runs." />
        ) : (
          <Table
            label="Commands by pool"
            rows={answer.pools}
            rowKey={(pool) => pool.pool}
            columns={[
              { title: "Pool", cell: (pool) => pool.pool },
              { title: "Ready", numeric: true, cell: (pool) => pool.ready },
              { title: "Delayed", numeric: true, cell: (pool) => pool.delayed },
              { title: "Leased", numeric: true, cell: (pool) => pool.leased },
              { title: "Suspended", numeric: true, cell: (pool) => pool.suspended },
              { title: "Oldest", numeric: true, cell: (pool) => durationText(pool.oldest * 1000) },
            ]}
          />
        )}
      </Part>
      <Part title="Leases">
        {answer.leases.length === 0 ? (
          <Empty title="No command is leased." />
        ) : (
          <Table
            label="Leases"
            rows={answer.leases}
            rowKey={(lease) => `${lease.owner} ${lease.pool} ${lease.alive}`}
            columns={[
              { title: "Owner", cell: (lease) => <span className="mono">{lease.owner}</span> },
              { title: "Pool", cell: (lease) => lease.pool },
              { title: "Commands", numeric: true, cell: (lease) => lease.commands },
              { title: "State", cell: (lease) => <Status of={lease.alive ? "alive" : "silent"} /> },
              {
                title: "Lease ends",
                numeric: true,
                cell: (lease) => (lease.seconds === null ? "–" : durationText(lease.seconds * 1000)),
              },
            ]}
          />
        )}
      </Part>
    </>
  );
}

function Workers({ workers }: { workers: Schemas["WorkerPool"][] }) {
  return (
    <Part title="Registered workers">
      {workers.length === 0 ? (
        <Empty title="No worker outside of the server is registered.">
          <p>The server's own process runs tasks.</p>
        </Empty>
      ) : (
        <Table
          label="Registered workers"
          rows={workers}
          rowKey={(worker) => worker.name}
          columns={[
            { title: "Worker", cell: (worker) => <span className="mono">{worker.name}</span> },
            { title: "Pool", cell: (worker) => worker.pool },
            { title: "State", cell: (worker) => <Status of={worker.alive ? "alive" : "silent"} /> },
            { title: "Running", numeric: true, cell: (worker) => `${worker.running} of ${worker.capacity}` },
            { title: "Heard of", cell: (worker) => <Moment at={worker.seen_at} relative /> },
            {
              title: "Commands",
              cell: (worker) =>
                worker.commands.map((command) => (
                  <div key={command.command_id}>
                    <ExecutionLink id={command.execution_id} />
                  </div>
                )),
            },
          ]}
        />
      )}
    </Part>
  );
}
