/** Any JSON as a tree of text: objects open one level at a time, long lists in slices, integers of any size. */
import { useState } from "react";

import { type Json, printJson } from "../api/json";
import { Button } from "./Button";
import { copyText } from "./clipboard";
import { Icon } from "./Icon";

const SLICE = 100;
const LONG_TEXT = 400;

export function JsonTree({ value, label }: { value: Json; label: string }) {
  return (
    <div className="json">
      <Button look="plain" label={`Copy ${label} as JSON`} onPress={() => void copyText(printJson(value, 2), `${label} as JSON`)}>
        <Icon name="copy" />
        Copy
      </Button>
      <div className="json-tree mono" role="group" aria-label={label}>
        <Node value={value} name={null} open />
      </div>
    </div>
  );
}

function Node({ value, name, open }: { value: Json; name: string | null; open?: boolean }) {
  const [opened, setOpened] = useState(open ?? false);
  if (!isBranch(value)) {
    return (
      <div className="json-leaf">
        {name === null ? null : <span className="json-name">{name}: </span>}
        <Leaf value={value} />
      </div>
    );
  }
  const size = Array.isArray(value) ? value.length : Object.keys(value).length;
  const summary = Array.isArray(value) ? `[${size}]` : `{${size}}`;
  return (
    <div>
      <button type="button" className="json-toggle" aria-expanded={opened} onClick={() => setOpened(!opened)}>
        <Icon name="chevron" />
        {name === null ? null : <span className="json-name">{name}</span>} <span className="muted">{summary}</span>
      </button>
      {opened ? <Children value={value} /> : null}
    </div>
  );
}

function Children({ value }: { value: Json[] | { [name: string]: Json } }) {
  const [shown, setShown] = useState(SLICE);
  const entries = Object.entries(value);
  return (
    <div className="json-children">
      {entries.slice(0, shown).map(([name, child]) => (
        <Node key={name} name={name} value={child} />
      ))}
      {entries.length > shown ? (
        <Button look="plain" onPress={() => setShown(shown + SLICE)}>
          {Math.min(SLICE, entries.length - shown)} more of {entries.length}
        </Button>
      ) : null}
    </div>
  );
}

function Leaf({ value }: { value: null | boolean | number | bigint | string }) {
  const [whole, setWhole] = useState(false);
  if (typeof value !== "string") return <span className="json-literal">{String(value)}</span>;
  if (value.length <= LONG_TEXT || whole) return <span className="json-text">"{value}"</span>;
  return (
    <>
      <span className="json-text">"{value.slice(0, LONG_TEXT)}…</span>
      <Button look="plain" onPress={() => setWhole(true)}>
        all {value.length} characters
      </Button>
    </>
  );
}

function isBranch(value: Json): value is Json[] | { [name: string]: Json } {
  return typeof value === "object" && value !== null;
}
