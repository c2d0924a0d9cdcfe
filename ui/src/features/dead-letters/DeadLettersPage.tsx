/** Messages that were given up: why, of which execution, and what can be done about it. */
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import type { Schemas } from "../../api/client";
import { Page } from "../../app/Page";
import { ActionButton, Button } from "../../design/Button";
import { COPIES } from "../../design/copies";
import { CopyAs } from "../../design/CopyAs";
import { Empty } from "../../design/Empty";
import { Loaded } from "../../design/Loaded";
import { Moment } from "../../design/Moment";
import { Note } from "../../design/Note";
import { Status } from "../../design/Status";
import { Table } from "../../design/Table";
import { ExecutionLink } from "../execution/Header";
import { HandleDialog } from "./HandleDialog";
import { deadLettersQuery } from "./queries";
import { lettersText, MOST_IDS, type Verb, VERBS, unreadText } from "./wording";

type Letter = Schemas["DeadLetterView"];

export default function DeadLettersPage() {
  const query = useInfiniteQuery(deadLettersQuery());
  return (
    <Page
      title="Dead letters"
      actions={
        <>
          <CopyAs of={COPIES.deadLetters} />
          <Button disabled={query.isFetching} onPress={() => void query.refetch()}>
            Look again
          </Button>
        </>
      }
    >
      <Loaded query={query}>
        {({ pages: [first, ...more] }) =>
          first ? (
            <>
              <Letters page={first} letters={[first, ...more].flatMap(({ letters }) => letters)} />
              {query.hasNextPage ? (
                <div>
                  <Button disabled={query.isFetchingNextPage} onPress={() => void query.fetchNextPage()}>
                    Show more
                  </Button>
                </div>
              ) : null}
              <Lost executions={first.lost} />
            </>
          ) : null
        }
      </Loaded>
    </Page>
  );
}

function Letters({ page, letters }: { page: Schemas["DeadLetterPage"]; letters: Letter[] }) {
  const [ticked, setTicked] = useState<ReadonlySet<string>>(new Set());
  const [asked, setAsked] = useState<Verb | null>(null);
  const unread = unreadText(page.queues);
  if (page.queues.length === 0) {
    return (
      <Empty title="This server has no queue, so it has no dead letters.">
        <p>{page.about}</p>
        <Link to="/executions" search={{ status: "failed" }}>
          Failed executions
        </Link>
      </Empty>
    );
  }
  const chosen = letters.filter(({ id }) => ticked.has(id)).map(({ id }) => id);
  const tooMany = chosen.length > MOST_IDS;
  const toggle = (id: string) => setTicked(new Set(ticked.has(id) ? [...ticked].filter((one) => one !== id) : [...ticked, id]));
  return (
    <>
      {unread ? (
        <Note tone="warn">
          <p>{unread} Another reader holds the others, or they follow these.</p>
        </Note>
      ) : null}
      {letters.length === 0 && !unread ? (
        <Empty title="No message was given up.">
          <p>{page.about}</p>
        </Empty>
      ) : (
        <>
          <p className="muted">{page.about}</p>
          <div className="row spread" role="region" aria-label="Actions on dead letters">
            <span role="status">
              {chosen.length > 0 ? `${chosen.length} selected` : "None selected: an action means all"}
              {tooMany ? `; select at most ${MOST_IDS}, or none` : ""}
            </span>
            <div className="row">
              {(["retry", "delete"] as const).map((verb) => (
                <ActionButton
                  key={verb}
                  scope={verb === "retry" ? "execute" : "admin"}
                  look={verb === "retry" ? undefined : "risky"}
                  disabled={tooMany}
                  onPress={() => setAsked(verb)}
                >
                  {VERBS[verb].title}…
                </ActionButton>
              ))}
            </div>
          </div>
          <div className="card card-flush">
            <Table label="Dead letters" rows={letters} rowKey={({ id }) => id} columns={columns(ticked, toggle)} />
          </div>
        </>
      )}
      {asked ? (
        <HandleDialog
          verb={asked}
          wish={chosen.length > 0 ? { ids: chosen } : { all: true }}
          title={chosen.length > 0 ? lettersText(chosen.length) : "all dead letters"}
          close={() => setAsked(null)}
          done={() => {
            setAsked(null);
            setTicked(new Set());
          }}
        />
      ) : null}
    </>
  );
}

function columns(ticked: ReadonlySet<string>, toggle: (id: string) => void) {
  return [
    {
      title: "Select",
      cell: ({ id }: Letter) => (
        <span>
          <input type="checkbox" aria-label={`Select ${id}`} checked={ticked.has(id)} onChange={() => toggle(id)} />
        </span>
      ),
    },
    {
      title: "Why",
      cell: ({ reason, next, laid_aside }: Letter) => (
        <div>
          <Status of={laid_aside ? "waiting" : "delayed"} word={laid_aside ? "waits for an operator" : "goes back by itself"} />
          <p>{reason}</p>
          <p className="muted small">{next}</p>
        </div>
      ),
    },
    {
      title: "Execution",
      cell: ({ executions }: Letter) => (executions.length > 0 ? executions.map((id) => <ExecutionLink key={id} id={id} />) : "–"),
    },
    {
      title: "Work",
      cell: ({ kind, step, run, command_id }: Letter) => (
        <span>
          {step ? `${step}${run === null ? "" : `, run ${run}`}` : kind || "cannot be read"}
          {command_id ? <span className="muted small mono"> {command_id}</span> : null}
        </span>
      ),
    },
    { title: "Queue", cell: ({ queue }: Letter) => queue },
    { title: "Sent", cell: ({ sent_at }: Letter) => <Moment at={sent_at} relative /> },
    { title: "Deliveries", numeric: true, cell: ({ deliveries }: Letter) => deliveries },
  ];
}

function Lost({ executions }: { executions: Schemas["LostExecution"][] }) {
  if (executions.length === 0) return null;
  return (
    <section className="stack" aria-label="Executions whose work was given up">
      <h2>Executions whose work was given up</h2>
      <p className="muted">They failed within the last two weeks. Redrive them on their pages when the cause is mended.</p>
      <div className="card card-flush">
        <Table
          label="Executions whose work was given up"
          rows={executions}
          rowKey={({ execution_id }) => execution_id}
          columns={[
            { title: "Execution", cell: ({ execution_id }) => <ExecutionLink id={execution_id} /> },
            { title: "Playbook", cell: ({ path }) => path },
            { title: "Error", cell: ({ error_code }) => <span className="mono">{error_code}</span> },
            { title: "Ended", cell: ({ ended_at }) => (ended_at === null ? "–" : <Moment at={ended_at} relative />) },
          ]}
        />
      </div>
    </section>
  );
}
