/** Search and commands: what the shown page can do, pages, playbooks, an execution by its id. */
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, useId, useState } from "react";

import { Icon, type IconName } from "../design/Icon";
import { Modal } from "../design/Modal";
import { playbookPages } from "../features/playbooks/queries";
import { useLiveState } from "../api/live/useLive";
import { allows } from "../api/session";
import { PAGES } from "./navigation";
import { pageActions } from "./pageActions";
import { setTheme } from "./preferences";
import { useSession } from "./SessionContext";

interface Command {
  title: string;
  kind: string;
  icon: IconName;
  run: () => void;
}

const MOST_SHOWN = 40;

export default function Palette({ close }: { close: () => void }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const list = useId();
  const commands = useCommands(text.trim());
  const chosen = Math.min(at, commands.length - 1);
  const run = (command: Command | undefined) => {
    if (!command) return;
    close();
    command.run();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      const next = (chosen + step + commands.length) % commands.length;
      setAt(next);
      document.getElementById(`${list}-${next}`)?.scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter") {
      event.preventDefault();
      run(commands[chosen]);
    }
  };
  return (
    <Modal title="Search and commands" close={close}>
      <div className="palette">
        <input
          className="input"
          role="combobox"
          aria-label="Action, page, playbook or execution id"
          aria-expanded="true"
          aria-controls={list}
          aria-activedescendant={commands.length > 0 ? `${list}-${chosen}` : undefined}
          autoFocus
          value={text}
          placeholder="Action, page, playbook or execution id"
          onChange={(event) => {
            setText(event.target.value);
            setAt(0);
          }}
          onKeyDown={onKeyDown}
        />
        <ul role="listbox" id={list} aria-label="Commands">
          {commands.map((command, index) => (
            <li
              key={`${command.kind} ${command.title}`}
              id={`${list}-${index}`}
              role="option"
              aria-selected={index === chosen}
              onClick={() => run(command)}
            >
              <Icon name={command.icon} />
              {command.title}
              <span className="muted small">{command.kind}</span>
            </li>
          ))}
        </ul>
        {commands.length === 0 ? <p className="muted">Nothing is named so.</p> : null}
      </div>
    </Modal>
  );
}

/** The actions of the shown page that this session may do now. */
function useActions(): Command[] {
  const session = useSession();
  const away = useLiveState() === "off";
  const { of, actions } = pageActions();
  return actions
    .filter(({ scope }) => scope === undefined || (allows(session, scope) && !away))
    .map(({ title, act }) => ({ title, kind: `this ${of}`, icon: "play", run: act }));
}

function useCommands(text: string): Command[] {
  const navigate = useNavigate();
  const playbooks = useQuery(playbookPages());
  const commands: Command[] = useActions();
  commands.push(
    ...PAGES.map((page): Command => ({
      title: page.title,
      kind: "page",
      icon: page.icon,
      run: () => void navigate({ to: page.to }),
    })),
  );
  for (const theme of ["light", "dark", "system"] as const) {
    commands.push({ title: `Theme: ${theme}`, kind: "setting", icon: "gear", run: () => setTheme(theme) });
  }
  for (const { path } of playbooks.data ?? []) {
    commands.push({
      title: path,
      kind: "playbook",
      icon: "book",
      run: () => void navigate({ to: "/playbooks/$", params: { _splat: path } }),
    });
  }
  const words = text.toLowerCase().split(/\s+/);
  const found = commands.filter(({ title }) => words.every((word) => title.toLowerCase().includes(word)));
  if (/^\d{6,19}$/.test(text)) {
    found.unshift({
      title: text,
      kind: "execution",
      icon: "list",
      run: () => void navigate({ to: "/executions/$id", params: { id: text } }),
    });
  }
  return found.slice(0, MOST_SHOWN);
}
