/** Every page and its typed search parameters; all but the shell are loaded on demand. */
import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from "@tanstack/react-router";

import { Empty } from "../design/Empty";
import { Failure } from "../design/Failure";
import { Skeleton } from "../design/Skeleton";
import { compareSearch } from "../features/compare/search";
import { executionSearch } from "../features/execution/search";
import { executionsSearch } from "../features/executions/search";
import { playbookSearch, playbooksSearch } from "../features/playbooks/search";
import { schedulesSearch } from "../features/schedules/search";
import { sqlSearch } from "../features/sql/search";
import { Gate } from "./Gate";
import { parseSearch, stringifySearch } from "./search";
import { Shell } from "./Shell";

const root = createRootRoute({ component: Gate });
const shell = createRoute({ getParentRoute: () => root, id: "shell", component: Shell });

const home = createRoute({
  getParentRoute: () => shell,
  path: "/",
  component: lazyRouteComponent(() => import("../features/home/HomePage")),
});
const executions = createRoute({
  getParentRoute: () => shell,
  path: "/executions",
  validateSearch: executionsSearch,
  component: lazyRouteComponent(() => import("../features/executions/ExecutionsPage")),
});
const execution = createRoute({
  getParentRoute: () => shell,
  path: "/executions/$id",
  validateSearch: executionSearch,
  component: lazyRouteComponent(() => import("../features/execution/ExecutionPage")),
});
const compare = createRoute({
  getParentRoute: () => shell,
  path: "/compare",
  validateSearch: compareSearch,
  component: lazyRouteComponent(() => import("../features/compare/ComparePage")),
});
const catalog = createRoute({ getParentRoute: () => shell, path: "/playbooks" });
const playbooks = createRoute({
  getParentRoute: () => catalog,
  path: "/",
  validateSearch: playbooksSearch,
  component: lazyRouteComponent(() => import("../features/playbooks/PlaybooksPage")),
});
const playbook = createRoute({
  getParentRoute: () => catalog,
  path: "$",
  validateSearch: playbookSearch,
  component: lazyRouteComponent(() => import("../features/playbooks/PlaybookPage")),
});
const approvals = createRoute({
  getParentRoute: () => shell,
  path: "/approvals",
  component: lazyRouteComponent(() => import("../features/approvals/ApprovalsPage")),
});
const schedules = createRoute({
  getParentRoute: () => shell,
  path: "/schedules",
  validateSearch: schedulesSearch,
  component: lazyRouteComponent(() => import("../features/schedules/SchedulesPage")),
});
const credentials = createRoute({
  getParentRoute: () => shell,
  path: "/credentials",
  component: lazyRouteComponent(() => import("../features/credentials/CredentialsPage")),
});
const limits = createRoute({
  getParentRoute: () => shell,
  path: "/limits",
  component: lazyRouteComponent(() => import("../features/limits/LimitsPage")),
});
const workers = createRoute({
  getParentRoute: () => shell,
  path: "/workers",
  component: lazyRouteComponent(() => import("../features/workers/WorkersPage")),
});
const deadLetters = createRoute({
  getParentRoute: () => shell,
  path: "/dead-letters",
  component: lazyRouteComponent(() => import("../features/dead-letters/DeadLettersPage")),
});
const sql = createRoute({
  getParentRoute: () => shell,
  path: "/sql",
  validateSearch: sqlSearch,
  component: lazyRouteComponent(() => import("../features/sql/SqlPage")),
});
const settings = createRoute({
  getParentRoute: () => shell,
  path: "/settings",
  component: lazyRouteComponent(() => import("../features/settings/SettingsPage")),
});
const enter = createRoute({ getParentRoute: () => root, path: "/enter" });

export const router = createRouter({
  routeTree: root.addChildren([
    shell.addChildren([
      home,
      executions,
      execution,
      compare,
      catalog.addChildren([playbooks, playbook]),
      approvals,
      schedules,
      credentials,
      limits,
      workers,
      deadLetters,
      sql,
      settings,
    ]),
    enter,
  ]),
  parseSearch,
  stringifySearch,
  basepath: new URL(document.baseURI).pathname,
  defaultPreload: "intent",
  defaultPendingComponent: () => <Skeleton />,
  defaultErrorComponent: ({ error, reset }) => <Failure error={error} retry={reset} />,
  defaultNotFoundComponent: () => <Empty title="There is no such page." />,
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
