/** Tests of the playbook in virtual time: a test file to write, what each case found, and what no case reaches. */
import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";

import { api, read, type Schemas } from "../../../api/client";
import { Problem } from "../../../api/problem";
import { ActionButton, Button } from "../../../design/Button";
import { Failure } from "../../../design/Failure";
import { Loaded } from "../../../design/Loaded";
import { Note } from "../../../design/Note";
import { Skeleton } from "../../../design/Skeleton";
import CodeView from "../../code/CodeView";
import { type Draft, dropDraft, readDraft } from "../drafts";
import { Findings } from "../Findings";
import { useEditedText } from "../useEditedText";
import { useKeptDraft } from "../useKeptDraft";
import { CaseResults } from "./CaseResults";
import { Coverage } from "./Coverage";
import { casesOf, FIRST_TESTS, withCases } from "./testText";

type Playbook = Schemas["PlaybookAnswer"];

/** Which results of an execution are replies: those of its code, too, or only those of tasks that reach outside. */
type Code = "run" | "recorded";

const testOf = (id: string, code: Code) =>
  read(api.GET("/api/executions/{execution_id}/test", { params: { path: { execution_id: id }, query: { code } } }));

export default function TestsTab({ playbook, from }: { playbook: Playbook; from: string | undefined }) {
  const kept = useQuery({
    queryKey: ["draft", "tests", playbook.path],
    queryFn: async () => ({
      tests: await readDraft(nameOf(playbook.path)).catch(() => null),
      text: await readDraft(playbook.path).catch(() => null),
    }),
    gcTime: 0,
  });
  const made = useQuery({ queryKey: ["recorded-test", from], queryFn: () => testOf(from ?? "", "run"), enabled: from !== undefined, retry: false });
  if (kept.isPending) return <Skeleton />;
  if (from === undefined) return <Tests playbook={playbook} tests={kept.data?.tests ?? null} draft={kept.data?.text ?? null} />;
  return (
    <Loaded query={made}>
      {(answer) => (
        <Tests playbook={playbook} tests={kept.data?.tests ?? null} draft={kept.data?.text ?? null} made={answer} />
      )}
    </Loaded>
  );
}

const nameOf = (path: string) => `${path} tests`;

function Tests({
  playbook,
  tests,
  draft,
  made,
}: {
  playbook: Playbook;
  tests: Draft | null;
  draft: Draft | null;
  made?: Schemas["RecordedTestAnswer"];
}) {
  const name = nameOf(playbook.path);
  const navigate = useNavigate({ from: "/playbooks/$" });
  const { given, typed, setTyped, put } = useEditedText(tests?.text ?? made?.tests ?? FIRST_TESTS);
  const [offered, setOffered] = useState(made !== undefined && tests !== null && !tests.text.includes(casesOf(made.tests)));
  const [code, setCode] = useState<Code>("run");
  const text = draft?.text ?? playbook.content;
  useKeptDraft(name, typed === FIRST_TESTS ? null : { text: typed, version: null });
  const run = useMutation({ mutationFn: () => read(api.POST("/api/catalog/test", { body: { content: text, tests: typed } })) });
  const write = (next: string) => {
    put(next);
    setOffered(false);
    run.reset();
  };
  const recorded = useMutation({
    mutationFn: () => testOf(made?.execution_id ?? "", "recorded"),
    onSuccess: (answer) => {
      write(made ? typed.replace(casesOf(made.tests), casesOf(answer.tests)) : answer.tests);
      setCode("recorded");
    },
  });
  const broken = run.error instanceof Problem ? run.error.findings : [];
  const marks = useMemo(() => marksOf(run.data), [run.data]);
  const differs = made !== undefined && code === "run" && (run.data?.failed ?? 0) > 0;
  return (
    <div className="stack">
      {made && offered ? (
        <Note tone="idle">
          <p>A test of execution {made.execution_id} is ready. There are tests in this browser already.</p>
          <div className="row">
            <Button onPress={() => write(withCases(typed, made.tests))}>Add it to them</Button>
            <Button onPress={() => write(made.tests)}>Replace them</Button>
          </div>
        </Note>
      ) : null}
      {made && made.notes.length > 0 ? (
        <Note tone="warn">
          {made.notes.map((note) => (
            <p key={note}>{note}</p>
          ))}
        </Note>
      ) : null}
      <div className="tests-two">
        <section className="stack" aria-label="Test file">
          <CodeView
            label="Text of the tests"
            identity={`${name} ${given.edition}`}
            text={given.text}
            marks={marks}
            onChange={setTyped}
            onRun={() => run.mutate()}
          />
          <div className="row">
            <ActionButton scope="write" look="main" disabled={run.isPending} onPress={() => run.mutate()}>
              {run.isPending ? "Running…" : "Run the tests"}
            </ActionButton>
            <Button onPress={() => save(typed, playbook.name)}>Save as file</Button>
            <Button
              onPress={() => {
                void dropDraft(name).catch(() => undefined);
                write(FIRST_TESTS);
                void navigate({ search: (before) => ({ ...before, from: undefined }) });
              }}
            >
              Begin again
            </Button>
          </div>
          <p className="muted small">
            {draft ? "They run against the draft of the editor" : `They run against version ${playbook.version}`}, in virtual time, with replies in
            the place of services. Control+Enter runs them; Escape, then Tab, leaves the text. It is kept in this browser.
          </p>
        </section>
        <section className="stack" aria-label="Results of the tests">
          {run.error && broken.length === 0 ? <Failure error={run.error} /> : null}
          {broken.length > 0 ? <p>The playbook cannot be run; mend it in the editor.</p> : null}
          <Findings findings={[...broken, ...(run.data?.problems ?? [])]} />
          {run.data && run.data.problems.length === 0 ? <CaseResults answer={run.data} playbook={playbook.name} /> : null}
          {differs ? (
            <Note tone="idle">
              <p>Code may have another outcome each time it runs. Recorded results can take its place.</p>
              <div className="row">
                <Button onPress={() => recorded.mutate()} disabled={recorded.isPending}>
                  Take recorded results
                </Button>
              </div>
              {recorded.error ? <Failure error={recorded.error} /> : null}
            </Note>
          ) : null}
          {run.data || run.error ? null : (
            <p className="muted">
              {run.isPending ? "The cases run in a process of their own; it may take up to 30 seconds." : "Run the tests to see what each case finds, and what no case reaches."}
            </p>
          )}
        </section>
      </div>
      {run.data && run.data.branches.length > 0 ? <Coverage answer={run.data} text={text} /> : null}
    </div>
  );
}

/** Problems of the test file, and each case that failed, at their lines. */
function marksOf(answer: Schemas["TestsAnswer"] | undefined) {
  const failed = (answer?.cases ?? []).filter((one) => !one.passed);
  return [
    ...(answer?.problems ?? []),
    ...failed.map((one) => ({ line: one.line, column: 1, severity: "error" as const, message: `${one.name}: ${one.findings[0]?.where ?? "failed"}` })),
  ];
}

function save(text: string, name: string) {
  const address = URL.createObjectURL(new Blob([text], { type: "application/yaml" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = `${name}.test.yaml`;
  link.click();
  URL.revokeObjectURL(address);
}
