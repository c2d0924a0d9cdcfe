/** The filter of the list; it lives in the link. */
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { Button } from "../../design/Button";
import { SelectField, TextField } from "../../design/Field";
import { Icon } from "../../design/Icon";
import { TextFilter } from "../../design/TextFilter";
import { momentText, type Zone, zoneName } from "../../design/time";
import { useZone } from "../../app/preferences";
import { AGES, executionsSearch, type ExecutionsSearch, isFiltered, MORE, STATUSES } from "./search";
import { SavedViews } from "./SavedViews";

const STATUS_CHOICES = [{ value: "", label: "any" }, ...STATUSES.map((value) => ({ value, label: value }))];
const AGE_CHOICES = [{ value: "", label: "any time" }, ...Object.entries(AGES).map(([value, label]) => ({ value, label }))];

export function Filters({ search }: { search: ExecutionsSearch }) {
  const navigate = useNavigate({ from: "/executions" });
  const zone = useZone();
  const [more, setMore] = useState(MORE.some((name) => search[name] !== undefined));
  const change = (part: Record<string, string | undefined>) =>
    void navigate({ search: executionsSearch({ ...search, ...part }), replace: true });
  return (
    <search className="filters">
      <SavedViews search={search} />
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
      <TextFilter label="Contains" placeholder="path, name, label" value={search.text} apply={(text) => change({ text })} />
      <Button pressed={more} onPress={() => setMore(!more)}>
        More filters
      </Button>
      {more ? (
        <div className="filters filters-more">
          <TextFilter label="Error code" placeholder="of a failure" value={search.error_code} apply={(text) => change({ error_code: text })} />
          <TextFilter label="Started by" placeholder="a principal" value={search.principal} apply={(text) => change({ principal: text })} />
          <TextFilter label="Labels" placeholder="name=value, name=value" value={search.labels} apply={(text) => change({ labels: text })} />
          <MomentFilter label={`Started after (${zoneName(zone)})`} zone={zone} value={search.after} apply={(after) => change({ after })} />
          <MomentFilter label={`Started before (${zoneName(zone)})`} zone={zone} value={search.before} apply={(before) => change({ before })} />
        </div>
      ) : null}
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

/** A moment in the zone of the page. */
function MomentFilter({
  label,
  zone,
  value,
  apply,
}: {
  label: string;
  zone: Zone;
  value: string | undefined;
  apply: (moment: string | undefined) => void;
}) {
  const shown = value === undefined ? "" : momentText(Date.parse(value), zone).slice(0, 16).replace(" ", "T");
  const change = (text: string) => apply(text === "" ? undefined : zone === "UTC" ? `${text}Z` : text);
  return <TextField label={label} type="datetime-local" value={shown} onChange={change} />;
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
