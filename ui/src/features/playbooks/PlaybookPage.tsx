import "./playbooks.css";

import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useMemo } from "react";

import { type Schemas } from "../../api/client";
import { Page } from "../../app/Page";
import { usePageActions } from "../../app/pageActions";
import { COPIES } from "../../design/copies";
import { CopyAs } from "../../design/CopyAs";
import { Loaded } from "../../design/Loaded";
import { Skeleton } from "../../design/Skeleton";
import { readFlowchart } from "../graph/flowchart";
import { DiffTab } from "./DiffTab";
import { graphOf, playbookText } from "./queries";
import { RunForm } from "./RunForm";
import { VIEWS } from "./search";
import { VersionsTab } from "./VersionsTab";

const CodeView = lazy(() => import("../code/CodeView"));
const GraphView = lazy(() => import("../graph/GraphView"));
const Editor = lazy(() => import("./Editor"));
const RelationsTab = lazy(() => import("./RelationsTab"));
const TestsTab = lazy(() => import("./tests/TestsTab"));

type Playbook = Schemas["PlaybookAnswer"];

const TITLES = { text: "Text", graph: "Graph", versions: "Versions", diff: "Diff", edit: "Edit", tests: "Tests", relations: "Relations", run: "Run" } as const;

export default function PlaybookPage() {
  const { _splat: path = "" } = useParams({ from: "/shell/playbooks/$" });
  const { version } = useSearch({ from: "/shell/playbooks/$" });
  const query = useQuery(playbookText(path, version));
  useCommands(path);
  return (
    <Page
      title={version === undefined ? path : `${path}@${version}`}
      actions={
        <>
          <CopyAs of={() => COPIES.playbook(path, version)} />
          <Link className="button" to="/executions" search={{ path }}>
            Executions
          </Link>
          <Link className="button button-main" from="/playbooks/$" search={(before) => ({ ...before, view: "run" })}>
            Run…
          </Link>
        </>
      }
    >
      <Loaded query={query} lines={10}>
        {(playbook) => <Content playbook={playbook} />}
      </Loaded>
    </Page>
  );
}

/** What the palette offers for the playbook. */
function useCommands(path: string): void {
  const navigate = useNavigate({ from: "/playbooks/$" });
  const show = (view: keyof typeof TITLES) => () => void navigate({ search: (before) => ({ ...before, view }) });
  usePageActions("playbook", [
    { title: "Run…", scope: "execute", act: show("run") },
    { title: "Edit", scope: "write", act: show("edit") },
    { title: "Run the tests…", scope: "write", act: show("tests") },
    { title: "Executions", act: () => void navigate({ to: "/executions", search: { path } }) },
  ]);
}

function Content({ playbook }: { playbook: Playbook }) {
  const search = useSearch({ from: "/shell/playbooks/$" });
  const view = search.view ?? "text";
  return (
    <>
      <nav className="tabs" aria-label="Views of the playbook">
        {VIEWS.map((each) => (
          <Link
            key={each}
            from="/playbooks/$"
            search={(before) => ({ ...before, view: each })}
            aria-current={each === view ? "page" : undefined}
            activeProps={{ "aria-current": undefined }}
            resetScroll={false}
          >
            {TITLES[each]}
          </Link>
        ))}
      </nav>
      <Suspense fallback={<Skeleton lines={8} />}>
        {view === "text" ? (
          <CodeView
            label={`Text of ${playbook.path}`}
            identity={`${playbook.path}@${playbook.version} ${search.line}`}
            text={playbook.content}
            line={search.line}
          />
        ) : null}
        {view === "graph" ? <GraphTab playbook={playbook} /> : null}
        {view === "versions" ? <VersionsTab path={playbook.path} shown={playbook.version} /> : null}
        {view === "diff" ? <DiffTab playbook={playbook} base={search.base} /> : null}
        {view === "edit" ? <EditTab playbook={playbook} /> : null}
        {view === "tests" ? <TestsTab key={search.from} playbook={playbook} from={search.from} /> : null}
        {view === "relations" ? <RelationsTab path={playbook.path} version={playbook.version} /> : null}
        {view === "run" ? <RunForm key={playbook.version} path={playbook.path} version={playbook.version} like={search.like} /> : null}
      </Suspense>
    </>
  );
}

function GraphTab({ playbook }: { playbook: Playbook }) {
  const graph = useQuery(graphOf(playbook.path, playbook.version));
  const navigate = useNavigate({ from: "/playbooks/$" });
  const chart = useMemo(() => readFlowchart(graph.data?.graph ?? ""), [graph.data]);
  return (
    <Loaded query={graph}>
      {(answer) => (
        <GraphView
          identity={`${answer.path}@${answer.version}`}
          chart={chart}
          select={() => void navigate({ search: (before) => ({ ...before, view: "text" }) })}
        />
      )}
    </Loaded>
  );
}

function EditTab({ playbook }: { playbook: Playbook }) {
  const navigate = useNavigate({ from: "/playbooks/$" });
  return (
    <Editor
      key={playbook.version}
      draft={playbook.path}
      text={playbook.content}
      version={playbook.version}
      registered={({ path }) => void navigate({ to: "/playbooks/$", params: { _splat: path }, search: { view: "text" } })}
    />
  );
}
