import "./playbooks.css";

import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";

import { Page } from "../../app/Page";
import { Sparkline } from "../../design/charts/Sparkline";
import { COPIES } from "../../design/copies";
import { CopyAs } from "../../design/CopyAs";
import { Empty } from "../../design/Empty";
import { Failure } from "../../design/Failure";
import { SelectField, TextField } from "../../design/Field";
import { Icon } from "../../design/Icon";
import { Loaded } from "../../design/Loaded";
import { Moment } from "../../design/Moment";
import { Example } from "../home/Example";
import { type Activity, activityText, barsOf, type Days, spanOf, SPANS } from "./activity";
import { NewPlaybook } from "./NewPlaybook";
import { type PlaybookLine, playbookPages } from "./queries";
import { type Folder, treeOf } from "./tree";
import { ActivityContext, useActivity, useLineActivity } from "./useActivity";

export default function PlaybooksPage() {
  const query = useQuery(playbookPages());
  return (
    <Page title="Playbooks" actions={<><CopyAs of={COPIES.playbooks} /><NewPlaybook /></>}>
      <Loaded query={query}>{(playbooks) => <Playbooks playbooks={playbooks} />}</Loaded>
    </Page>
  );
}

function Playbooks({ playbooks }: { playbooks: PlaybookLine[] }) {
  const { text = "", days = 1 } = useSearch({ from: "/shell/playbooks/" });
  const navigate = useNavigate({ from: "/playbooks/" });
  const paths = useMemo(() => playbooks.map(({ path }) => path), [playbooks]);
  const activity = useActivity(paths, days);
  if (playbooks.length === 0) {
    return (
      <Empty title="No playbook is registered.">
        <p>
          Register one with <code>noetl register my.yaml</code>, write one here, or try the example.
        </p>
        <Example />
      </Empty>
    );
  }
  const tree = treeOf(playbooks, text);
  return (
    <>
      <search className="filters">
        <div className="filters-path">
          <TextField
            label="Path"
            type="search"
            value={text}
            onChange={(next) => void navigate({ search: (before) => ({ ...before, text: next || undefined }), replace: true })}
          />
        </div>
        <SelectField
          label="Runs of"
          value={String(days)}
          choices={SPANS.map((span) => ({ value: String(span.days), label: `the last ${span.label}` }))}
          onChange={(next) =>
            void navigate({ search: (before) => ({ ...before, days: next === "7" ? 7 : undefined }), replace: true, resetScroll: false })
          }
        />
      </search>
      {activity.error ? <Failure error={activity.error} retry={activity.retry} /> : null}
      {activity.incomplete ? (
        <p className="small muted">
          More executions ended than one request counts: figures before <Moment at={activity.incomplete} /> are too low.
        </p>
      ) : null}
      {tree.folders.length + tree.playbooks.length === 0 ? (
        <Empty title="No path has this text." />
      ) : (
        <section className="card playbooks" aria-label="Playbooks by folder">
          <ActivityContext value={activity.shown}>
            <FolderList folder={tree} days={days} />
          </ActivityContext>
        </section>
      )}
    </>
  );
}

function FolderList({ folder, days }: { folder: Folder; days: Days }) {
  return (
    <ul>
      {folder.folders.map((each) => (
        <li key={each.path}>
          <details open>
            <summary>
              <Icon name="folder" />
              {each.name}
            </summary>
            <FolderList folder={each} days={days} />
          </details>
        </li>
      ))}
      {folder.playbooks.map((playbook) => (
        <PlaybookItem key={playbook.path} playbook={playbook} days={days} />
      ))}
    </ul>
  );
}

function PlaybookItem({ playbook: { path, version, created_at }, days }: { playbook: PlaybookLine; days: Days }) {
  const { line, answer } = useLineActivity(path);
  return (
    <li className="playbooks-line" ref={line}>
      <Icon name="book" />
      <Link to="/playbooks/$" params={{ _splat: path }}>
        {path.split("/").at(-1)}
      </Link>
      <span className="muted small">version {version}</span>
      <span className="playbooks-runs small">{answer ? <Runs answer={answer} path={path} days={days} /> : null}</span>
      <span className="muted small playbooks-time">
        <Moment at={created_at} relative />
      </span>
    </li>
  );
}

/** The room of a line is there before its figures are. */
function Runs({ answer, path, days }: { answer: Activity; path: string; days: Days }) {
  const found = answer.playbooks.find((one) => one.path === path);
  if (!found) return <span className="muted">no runs</span>;
  const { ended, failed, buckets } = found;
  return (
    <>
      <Sparkline bars={barsOf(answer, buckets)} />
      <Link
        to="/executions"
        search={{ path, ...(failed > 0 ? { status: "failed" } : {}) }}
        aria-label={`${path}, last ${spanOf(days).label}: ${activityText(ended, failed)}`}
      >
        <span>{activityText(ended, 0)}</span>
        {failed > 0 ? <span className="playbooks-failed">{failed.toLocaleString("en")} failed</span> : null}
      </Link>
    </>
  );
}
