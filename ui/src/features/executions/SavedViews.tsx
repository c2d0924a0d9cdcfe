/** The views of the list: those that everyone has, and those that people saved. */
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { useSavedViews } from "../../app/savedViews";
import { ActionButton, Button } from "../../design/Button";
import { Failure } from "../../design/Failure";
import { SelectField, TextField } from "../../design/Field";
import { Modal } from "../../design/Modal";
import { type ExecutionsSearch } from "./search";
import { BUILT_IN, textsOf, viewOf, viewsOf } from "./views";

const OTHER = "";

export function SavedViews({ search }: { search: ExecutionsSearch }) {
  const navigate = useNavigate({ from: "/executions" });
  const saved = useSavedViews("executions");
  const [naming, setNaming] = useState(false);
  const own = viewsOf(saved.views);
  const views = [...BUILT_IN, ...own];
  const current = viewOf(views, search);
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
        <ActionButton scope="execute" look="plain" onPress={() => setNaming(true)}>
          Save view…
        </ActionButton>
      ) : own.includes(current) ? (
        <ActionButton scope="execute" look="plain" disabled={saved.remove.isPending} onPress={() => saved.remove.mutate(current.name)}>
          Delete view
        </ActionButton>
      ) : null}
      {naming ? (
        <NameView
          names={own.map(({ name }) => name)}
          pending={saved.save.isPending}
          error={saved.save.error}
          close={() => {
            saved.save.reset();
            setNaming(false);
          }}
          save={(name) => saved.save.mutate({ name, search: textsOf(search) }, { onSuccess: () => setNaming(false) })}
        />
      ) : saved.error ? (
        <Failure error={saved.error} />
      ) : null}
    </>
  );
}

interface NameViewProps {
  /** Names of views that people saved; saving under one of them replaces it. */
  names: string[];
  pending: boolean;
  error: Error | null;
  close: () => void;
  save: (name: string) => void;
}

function NameView({ names, pending, error, close, save }: NameViewProps) {
  const [name, setName] = useState("");
  const wanted = name.trim();
  const wrong = BUILT_IN.some((view) => view.name === wanted) ? "Every list has a view of this name." : undefined;
  const taken = names.includes(wanted);
  return (
    <Modal title="Save view" close={close}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          if (wanted && !wrong) save(wanted);
        }}
      >
        <TextField label="Name" hint="All who use this server see the view." wrong={wrong} value={name} onChange={setName} />
        {taken ? <p className="muted small">A view of this name exists; its filter is replaced.</p> : null}
        {error ? <Failure error={error} /> : null}
        <div className="dialog-actions">
          <Button onPress={close}>Close</Button>
          <ActionButton scope="execute" look="main" disabled={!wanted || wrong !== undefined || pending} onPress={() => save(wanted)}>
            {taken ? "Replace" : "Save"}
          </ActionButton>
        </div>
      </form>
    </Modal>
  );
}
