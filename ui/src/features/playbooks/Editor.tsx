/** Write a playbook: the server's diagnostics at their places, a draft that survives, a warning when the version moved. */
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";

import { api, read, type Schemas } from "../../api/client";
import { type Finding, Problem } from "../../api/problem";
import { notify } from "../../app/notices";
import { ActionButton, Button } from "../../design/Button";
import { Failure } from "../../design/Failure";
import { Note } from "../../design/Note";
import { Skeleton } from "../../design/Skeleton";
import CodeView from "../code/CodeView";
import { type Draft, dropDraft, readDraft } from "./drafts";
import { Findings } from "./Findings";
import { versionsOf } from "./queries";
import { useKeptDraft } from "./useKeptDraft";

interface EditorProps {
  /** The name of the draft: the playbook's path. */
  draft: string;
  text: string;
  /** The version that the text is of; the latest one when the page was opened. */
  version?: number;
  registered: (answer: Schemas["RegisteredAnswer"]) => void;
}

export default function Editor(props: EditorProps) {
  const kept = useQuery({
    queryKey: ["draft", props.draft, props.version ?? null],
    queryFn: () => readDraft(props.draft).catch(() => null),
    gcTime: 0,
  });
  if (kept.isPending) return <Skeleton />;
  return <Writing {...props} kept={kept.data ?? null} />;
}

function Writing({ draft, text, version, registered, kept }: EditorProps & { kept: Draft | null }) {
  const [start, setStart] = useState(kept?.text ?? text);
  const [typed, setTyped] = useState(start);
  const client = useQueryClient();
  const changed = typed !== text;
  const [base, setBase] = useState(kept?.version ?? version ?? null);
  /** A version that came after the one the text began with: a person decides what happens then. */
  const [moved, setMoved] = useState<number | null>(null);
  const [done, setDone] = useState(false);
  useKeptDraft(draft, changed && !done ? { text: typed, version: base } : null);
  const register = useMutation({
    mutationFn: async () => {
      const [latest] = base === null || moved !== null ? [] : await client.fetchQuery({ ...versionsOf(draft), staleTime: 0 });
      if (latest && latest.version !== base) {
        setMoved(latest.version);
        return null;
      }
      return read(api.POST("/api/catalog/register", { body: { content: typed } }));
    },
    onSuccess: async (answer) => {
      if (answer === null) return;
      setDone(true);
      await dropDraft(draft).catch(() => undefined);
      await client.invalidateQueries({ queryKey: ["catalog"] });
      await client.invalidateQueries({ queryKey: ["versions", answer.path] });
      await client.invalidateQueries({ queryKey: ["playbook", answer.path, "latest"] });
      notify(answer.created ? `Registered ${answer.path}, version ${answer.version}.` : `Version ${answer.version} has this text already.`);
      registered(answer);
    },
  });
  const findings = useMemo(() => findingsOf(register.error, register.data), [register.error, register.data]);
  const change = (next: string) => {
    setDone(false);
    setTyped(next);
  };
  const drop = () => {
    void dropDraft(draft).catch(() => undefined);
    setStart(text);
    setTyped(text);
    setBase(version ?? null);
    setMoved(null);
    register.reset();
  };
  return (
    <div className="stack">
      {moved !== null || (base !== null && version !== undefined && base !== version) ? (
        <Note tone="warn">
          <p>
            This text began with version {base}; the latest is now {moved ?? version}. Registering makes another version after it.{" "}
            <Link to="/playbooks/$" params={{ _splat: draft }} search={{ view: "diff", base: base ?? undefined, version: moved ?? version }}>
              What changed
            </Link>
          </p>
        </Note>
      ) : null}
      <CodeView label="Text of the playbook" identity={`${draft} ${start}`} text={start} marks={findings} onChange={change} />
      <Findings findings={findings} />
      {register.error && findings.length === 0 ? <Failure error={register.error} /> : null}
      <div className="row">
        <ActionButton scope="write" look="main" disabled={register.isPending} onPress={() => register.mutate()}>
          {moved === null ? "Register" : "Register all the same"}
        </ActionButton>
        <Button onPress={drop} disabled={!changed}>
          Drop the draft
        </Button>
        <span className="muted small">{changed ? "A draft is kept in this browser. " : ""}Escape, then Tab, leaves the text.</span>
      </div>
    </div>
  );
}

function findingsOf(error: unknown, answer: Schemas["RegisteredAnswer"] | null | undefined): Finding[] {
  if (error instanceof Problem) return error.findings;
  return answer?.warnings ?? [];
}
