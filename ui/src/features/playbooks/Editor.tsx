/** Write a playbook: the server's diagnostics at their places, a draft that survives, a warning when the version moved. */
import { keepPreviousData, useMutation, usePrefetchQuery, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect, useMemo, useRef, useState } from "react";

import { api, read, type Schemas } from "../../api/client";
import { type Finding, Problem } from "../../api/problem";
import { notify } from "../../app/notices";
import { ActionButton, Button } from "../../design/Button";
import { Failure } from "../../design/Failure";
import { Note } from "../../design/Note";
import { Skeleton } from "../../design/Skeleton";
import { assist } from "../code/assist";
import { withLearned } from "../code/assist/learned";
import CodeView, { type Hands } from "../code/CodeView";
import { DraftGraph } from "./DraftGraph";
import { type Draft, dropDraft, readDraft } from "./drafts";
import { Findings } from "./Findings";
import { learnedFrom, playbookSchema } from "./queries";
import { useEditedText } from "./useEditedText";
import { useKeptDraft } from "./useKeptDraft";

/** The server looks at a text when nothing was typed for so long. */
const QUIET_MS = 400;

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
  const { given, typed, latest, setTyped, put } = useEditedText(kept?.text ?? text);
  const client = useQueryClient();
  const changed = typed !== text;
  const [base, setBase] = useState(kept?.version ?? version ?? null);
  /** A version that came after the one the text began with: a person decides what happens then. */
  const [moved, setMoved] = useState<number | null>(null);
  const [done, setDone] = useState(false);
  useKeptDraft(draft, changed && !done ? { text: typed, version: base } : null);
  const looked = useQuietText(typed);
  const check = useQuery({
    queryKey: ["check", looked],
    queryFn: () => read(api.POST("/api/catalog/validate", { body: { content: looked, names: true, graph: true } })),
    enabled: looked.trim() !== "",
    placeholderData: keepPreviousData,
    retry: false,
    gcTime: 60_000,
  });
  usePrefetchQuery(playbookSchema);
  // The names of the last text that was a playbook: one that is half written has none.
  const names = useRef<Schemas["PlaybookNames"] | null>(null);
  names.current = check.data?.names ?? names.current;
  const learned = useQuery({ ...learnedFrom(draft), enabled: version !== undefined });
  const seen = useRef(learned.data);
  seen.current = learned.data;
  const helping = useMemo(() => {
    const schema = () => client.getQueryData(playbookSchema.queryKey) ?? client.ensureQueryData(playbookSchema).catch(() => null);
    return assist({ schema, names: () => withLearned(names.current, seen.current) });
  }, [client]);
  const hands = useRef<Hands | null>(null);
  /** The text names another path, whose versions are not those of this page. */
  const isOther = check.data?.path != null && check.data.path !== draft;
  const register = useMutation({
    mutationFn: (content: string) =>
      read(api.POST("/api/catalog/register", { body: { content, if_version: isOther ? null : (moved ?? base) } })),
    onError: (error) => {
      if (error instanceof Problem && error.code === "version_moved") setMoved(Number(error.body.details?.latest));
    },
    onSuccess: async (answer, content) => {
      const wentOn = latest.current !== content;
      if (wentOn) {
        // What was typed meanwhile is a draft of the new version.
        setMoved(null);
        if (answer.path === draft) setBase(answer.version);
      } else {
        setDone(true);
        await dropDraft(draft).catch(() => undefined);
      }
      await client.invalidateQueries({ queryKey: ["catalog"] });
      await client.invalidateQueries({ queryKey: ["versions", answer.path] });
      await client.invalidateQueries({ queryKey: ["playbook", answer.path, "latest"] });
      notify(answer.created ? `Registered ${answer.path}, version ${answer.version}.` : `Version ${answer.version} has this text already.`);
      if (!wentOn) registered(answer);
    },
  });
  const format = useMutation({
    mutationFn: (content: string) => read(api.POST("/api/catalog/format", { body: { content } })),
    onSuccess: ({ content, changed: isNew }, sent) => {
      if (latest.current !== sent) notify("The text was changed meanwhile, so it is not formatted.");
      else if (isNew) put(content);
      else notify("The text has this layout already.");
    },
  });
  const findings = useMemo(() => findingsOf(format.error, check.error, check.data), [format.error, check.error, check.data]);
  const refused = [register.error, format.error].filter((error) => error !== null && !isMoved(error) && foundBy(error).length === 0);
  const change = (next: string) => {
    setDone(false);
    format.reset();
    setTyped(next);
  };
  const drop = () => {
    void dropDraft(draft).catch(() => undefined);
    put(text);
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
      <div className="editor">
        <div className="editor-panes">
          <div className="stack">
            <CodeView label="Text of the playbook" identity={`${draft} ${given.edition}`} text={given.text} marks={findings} onChange={change} assist={helping} hands={hands} />
            <Findings findings={findings} fix={(finding) => hands.current?.fix(finding)} />
            {refused.map((error, at) => (
              <Failure key={at} error={error} />
            ))}
            <div className="row">
              <ActionButton scope="write" look="main" disabled={register.isPending} onPress={() => register.mutate(typed)}>
                {moved === null ? "Register" : "Register all the same"}
              </ActionButton>
              <Button onPress={() => format.mutate(typed)} disabled={format.isPending || typed.trim() === ""}>
                Format
              </Button>
              <Button onPress={drop} disabled={!changed}>
                Drop the draft
              </Button>
              <span className="muted small">{changed ? "A draft is kept in this browser. " : ""}Control+Space completes, Control+I explains, F8 goes to the next problem, Control+. does what it suggests. Escape, then Tab, leaves the text.</span>
            </div>
          </div>
          <DraftGraph graph={check.data?.graph ?? null} goTo={(line) => hands.current?.goTo(line)} />
        </div>
      </div>
    </div>
  );
}

/** The text once nothing was typed for a moment. */
function useQuietText(text: string): string {
  const [quiet, setQuiet] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setQuiet(text), QUIET_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return quiet;
}

function isMoved(error: unknown): boolean {
  return error instanceof Problem && error.code === "version_moved";
}

function foundBy(error: unknown): Finding[] {
  return error instanceof Problem ? error.findings : [];
}

/** What a format was refused for, or else what the server says of the text. */
function findingsOf(format: unknown, check: unknown, answer: Schemas["CheckedAnswer"] | undefined): Finding[] {
  return [foundBy(format), foundBy(check)].find((findings) => findings.length > 0) ?? answer?.diagnostics ?? [];
}
