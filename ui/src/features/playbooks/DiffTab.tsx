/** What changed from one version to another. */
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { lazy } from "react";

import type { Schemas } from "../../api/client";
import { Empty } from "../../design/Empty";
import { SelectField } from "../../design/Field";
import { Loaded } from "../../design/Loaded";
import { playbookText, versionsOf } from "./queries";

const DiffView = lazy(() => import("../code/DiffView"));

export function DiffTab({ playbook, base }: { playbook: Schemas["PlaybookAnswer"]; base: number | undefined }) {
  const versions = useQuery(versionsOf(playbook.path));
  const navigate = useNavigate({ from: "/playbooks/$" });
  const from = base ?? playbook.version - 1;
  const before = useQuery({ ...playbookText(playbook.path, from), enabled: from > 0 });
  const choices = (versions.data ?? []).map(({ version }) => ({ value: String(version), label: String(version) }));
  if (from < 1) return <Empty title="This is the first version: nothing came before it." />;
  return (
    <div className="stack">
      <div className="filters">
        <SelectField
          label="From version"
          value={String(from)}
          choices={choices}
          onChange={(value) => void navigate({ search: (search) => ({ ...search, base: Number(value) }) })}
        />
        <SelectField
          label="To version"
          value={String(playbook.version)}
          choices={choices}
          onChange={(value) => void navigate({ search: (search) => ({ ...search, version: Number(value) }) })}
        />
      </div>
      <Loaded query={before}>
        {(older) =>
          older.content === playbook.content ? (
            <Empty title="Both versions have the same text." />
          ) : (
            <DiffView
              label={`Changes from version ${from} to ${playbook.version}`}
              before={older.content}
              after={playbook.content}
            />
          )
        }
      </Loaded>
    </div>
  );
}
