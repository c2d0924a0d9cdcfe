import "./execution.css";

import { useQuery } from "@tanstack/react-query";
import { Link, useParams, useSearch } from "@tanstack/react-router";
import { lazy, Suspense } from "react";

import { useTopic } from "../../api/live/useLive";
import { Page } from "../../app/Page";
import { Loaded } from "../../design/Loaded";
import { Skeleton } from "../../design/Skeleton";
import { Actions } from "./actions/Actions";
import { Header } from "./Header";
import { END, type Execution, executionOf } from "./queries";
import { type View, VIEWS } from "./search";
import { TimeTravel } from "./TimeTravel";

const TITLES: Record<View, string> = {
  graph: "Graph",
  timeline: "Timeline",
  events: "Events",
  data: "Data",
  logs: "Logs",
  code: "Code",
  cost: "Cost",
  why: "Why",
};

const CONTENT = {
  graph: lazy(() => import("./GraphTab")),
  timeline: lazy(() => import("./timeline/TimelineTab")),
  events: lazy(() => import("./EventsTab")),
  data: lazy(() => import("./DataTab")),
  logs: lazy(() => import("./LogsTab")),
  code: lazy(() => import("./CodeTab")),
  cost: lazy(() => import("./CostTab")),
  why: lazy(() => import("./WhyTab")),
};

/** What every tab is handed. */
export interface TabProps {
  execution: Execution;
}

export default function ExecutionPage() {
  const { id } = useParams({ from: "/shell/executions/$id" });
  const query = useQuery(executionOf(id));
  // The first hint comes after the first read, so that it says whether there is something to read again.
  useTopic(`execution:${id}`, !query.isPending);
  const path = query.data?.path;
  return (
    <Page
      title={path ?? `Execution ${id}`}
      actions={query.data ? <Actions execution={query.data} /> : query.error ? <AllExecutions /> : null}
    >
      <Loaded query={query} lines={10}>
        {(execution) => <Content key={execution.execution_id} execution={execution} />}
      </Loaded>
    </Page>
  );
}

function AllExecutions() {
  return (
    <Link className="button" to="/executions">
      All executions
    </Link>
  );
}

function Content({ execution }: TabProps) {
  const { view = "graph", at } = useSearch({ from: "/shell/executions/$id" });
  const Tab = CONTENT[view];
  return (
    <>
      <Header execution={execution} />
      <TimeTravel execution={execution} />
      <nav className="tabs" aria-label="Views of the execution">
        {VIEWS.map((each) => (
          <Link
            key={each}
            from="/executions/$id"
            search={(before) => ({ ...before, view: each })}
            aria-current={each === view ? "page" : undefined}
            activeProps={{ "aria-current": undefined }}
            resetScroll={false}
          >
            {TITLES[each]}
          </Link>
        ))}
        {at === undefined ? (
          <Link className="tabs-end" from="/executions/$id" search={(before) => ({ ...before, at: END })} resetScroll={false}>
            Time travel
          </Link>
        ) : null}
      </nav>
      <Suspense fallback={<Skeleton lines={8} />}>
        <Tab execution={execution} />
      </Suspense>
    </>
  );
}
