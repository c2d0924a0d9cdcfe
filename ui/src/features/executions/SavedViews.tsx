/** The views of the list: those that everyone has, and those that this browser keeps. */
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { Button } from "../../design/Button";
import { SelectField, TextField } from "../../design/Field";
import { Modal } from "../../design/Modal";
import { type ExecutionsSearch } from "./search";
import { BUILT_IN, readViews, viewOf, withView, writeViews } from "./views";

const OTHER = "";

export function SavedViews({ search }: { search: ExecutionsSearch }) {
  const navigate = useNavigate({ from: "/executions" });
  const [own, setOwn] = useState(readViews);
  const [naming, setNaming] = useState(false);
  const views = [...BUILT_IN, ...own];
  const current = viewOf(views, search);
  const keep = (next: typeof own) => {
    writeViews(next);
    setOwn(next);
  };
  return (
    <>
      <SelectField
        label="View"
        value={current?.name ?? OTHER}
        choices={[...(current ? [] : [{ value: OTHER, label: "not saved" }]), ...views.map(({ name }) => ({ value: name, label: name }))]}
        onChange={(name) => {
          const view = views.find((one) => one.name === name);
          if (view) void navigate({ search: view.search });
        }}
      />
      {current === undefined ? (
        <Button look="plain" onPress={() => setNaming(true)}>
          Save view…
        </Button>
      ) : own.includes(current) ? (
        <Button look="plain" onPress={() => keep(own.filter((view) => view !== current))}>
          Forget view
        </Button>
      ) : null}
      {naming ? (
        <NameView
          taken={BUILT_IN.map(({ name }) => name)}
          close={() => setNaming(false)}
          save={(name) => {
            keep(withView(own, { name, search }));
            setNaming(false);
          }}
        />
      ) : null}
    </>
  );
}

function NameView({ taken, close, save }: { taken: string[]; close: () => void; save: (name: string) => void }) {
  const [name, setName] = useState("");
  const wanted = name.trim();
  const wrong = taken.includes(wanted) ? "Every browser has a view of this name." : undefined;
  return (
    <Modal title="Save view" close={close}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          if (wanted && !wrong) save(wanted);
        }}
      >
        <TextField
          label="Name"
          hint="This browser keeps it. To share the view, send the link of this page."
          wrong={wrong}
          value={name}
          onChange={setName}
        />
        <div className="dialog-actions">
          <Button onPress={close}>Close</Button>
          <Button look="main" disabled={!wanted || wrong !== undefined} onPress={() => save(wanted)}>
            Save
          </Button>
        </div>
      </form>
    </Modal>
  );
}
