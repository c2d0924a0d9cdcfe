/** The filter of the list; it lives in the link. */
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { Button } from "../../design/Button";
import { SelectField, TextField } from "../../design/Field";
import { Icon } from "../../design/Icon";
import { AGES, executionsSearch, type ExecutionsSearch, isFiltered, STATUSES } from "./search";

const STATUS_CHOICES = [{ value: "", label: "any" }, ...STATUSES.map((value) => ({ value, label: value }))];
const AGE_CHOICES = [{ value: "", label: "any time" }, ...Object.entries(AGES).map(([value, label]) => ({ value, label }))];

export function Filters({ search }: { search: ExecutionsSearch }) {
  const navigate = useNavigate({ from: "/executions" });
  const change = (part: Record<string, string | undefined>) =>
    void navigate({ search: executionsSearch({ ...search, ...part }), replace: true });
  return (
    <search className="filters">
      <SelectField
        label="Status"
        value={search.status ?? ""}
        choices={STATUS_CHOICES}
        onChange={(status) => change({ status })}
      />
      <SelectField label="Started" value={search.age ?? ""} choices={AGE_CHOICES} onChange={(age) => change({ age })} />
      <PlaybookFilter
        key={`${search.path}@${search.version}`}
        search={search}
        apply={(path, version) => change({ path, version })}
      />
      {search.parent ? (
        <div className="field">
          <span className="label">Parent</span>
          <Button onPress={() => change({ parent: undefined })} label={`Remove the filter by parent ${search.parent}`}>
            {search.parent}
            <Icon name="cross" />
          </Button>
        </div>
      ) : null}
      {isFiltered(search) ? (
        <div className="filters-clear">
          <Button look="plain" onPress={() => void navigate({ search: {}, replace: true })}>
            Clear
          </Button>
        </div>
      ) : null}
    </search>
  );
}

/** `path` or `path@version`, applied with Enter or when the field is left. */
function PlaybookFilter({
  search,
  apply,
}: {
  search: ExecutionsSearch;
  apply: (path: string | undefined, version: string | undefined) => void;
}) {
  const current = search.path ? (search.version === undefined ? search.path : `${search.path}@${search.version}`) : "";
  const [text, setText] = useState(current);
  const submit = () => {
    const [path, version] = text.trim().split("@");
    if (text.trim() !== current) apply(path || undefined, version);
  };
  return (
    <form
      className="filters-path"
      onBlur={submit}
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <TextField label="Playbook" type="search" value={text} onChange={setText} placeholder="path or path@version" />
    </form>
  );
}
