import "./playbooks.css";

import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";

import { Page } from "../../app/Page";
import { Empty } from "../../design/Empty";
import { TextField } from "../../design/Field";
import { Icon } from "../../design/Icon";
import { Loaded } from "../../design/Loaded";
import { Moment } from "../../design/Moment";
import { Example } from "../home/Example";
import { NewPlaybook } from "./NewPlaybook";
import { type PlaybookLine, playbookPages } from "./queries";
import { type Folder, treeOf } from "./tree";

export default function PlaybooksPage() {
  const query = useQuery(playbookPages());
  return (
    <Page title="Playbooks" actions={<NewPlaybook />}>
      <Loaded query={query}>{(playbooks) => <Playbooks playbooks={playbooks} />}</Loaded>
    </Page>
  );
}

function Playbooks({ playbooks }: { playbooks: PlaybookLine[] }) {
  const { text = "" } = useSearch({ from: "/shell/playbooks/" });
  const navigate = useNavigate({ from: "/playbooks/" });
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
      <search className="playbooks-search">
        <TextField
          label="Path"
          type="search"
          value={text}
          onChange={(next) => void navigate({ search: { text: next || undefined }, replace: true })}
        />
      </search>
      {tree.folders.length + tree.playbooks.length === 0 ? (
        <Empty title="No path has this text." />
      ) : (
        <section className="card playbooks" aria-label="Playbooks by folder">
          <FolderList folder={tree} />
        </section>
      )}
    </>
  );
}

function FolderList({ folder }: { folder: Folder }) {
  return (
    <ul>
      {folder.folders.map((each) => (
        <li key={each.path}>
          <details open>
            <summary>
              <Icon name="folder" />
              {each.name}
            </summary>
            <FolderList folder={each} />
          </details>
        </li>
      ))}
      {folder.playbooks.map((playbook) => (
        <li key={playbook.path} className="playbooks-line">
          <Icon name="book" />
          <Link to="/playbooks/$" params={{ _splat: playbook.path }}>
            {playbook.path.split("/").at(-1)}
          </Link>
          <span className="muted small">version {playbook.version}</span>
          <span className="muted small playbooks-time">
            <Moment at={playbook.created_at} relative />
          </span>
        </li>
      ))}
    </ul>
  );
}
