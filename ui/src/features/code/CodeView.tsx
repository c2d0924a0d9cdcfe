/** A playbook's text, to read or to edit, with marks of the server at their places. */
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { EditorState, type Extension } from "@codemirror/state";
import { Decoration, EditorView, highlightActiveLine, keymap } from "@codemirror/view";
import { type RefObject, useEffect, useRef } from "react";

import { applyFix, diagnosticOf, fixKeys, lineOf } from "./diagnostics";
import { yamlView } from "./extensions";
import type { Mark } from "./marks";
import { useShadowView } from "./useShadowView";
import { templateValues, type ValueOf } from "./values";

/** `fix`: do what a mark suggests. `goTo`: put the cursor into a line and show it. */
export interface Hands {
  fix: (mark: Mark) => void;
  goTo: (line: number) => void;
}

interface CodeProps {
  label: string;
  /** Another identity is another text; what was typed is left behind. */
  identity: string;
  text: string;
  marks?: Mark[];
  /** The line that a link leads to. */
  line?: number;
  /** Lines with branches, and whether all of a line's were reached. */
  reached?: ReadonlyMap<number, boolean>;
  /** The value of a template of the text, shown at the pointer or by Control+I. */
  templateValue?: ValueOf;
  onChange?: (text: string) => void;
  /** Completion and help, for a text that is edited. */
  assist?: Extension;
  /** Set to what others do in the text. */
  hands?: RefObject<Hands | null>;
  /** Control+Enter in the text. */
  onRun?: () => void;
}

const still = [EditorState.readOnly.of(true), EditorView.editable.of(false)];
const NO_MARKS: Mark[] = [];

export default function CodeView({ label, identity, text, marks = NO_MARKS, line, reached, templateValue, onChange, assist, hands, onRun }: CodeProps) {
  const runner = useRef(onRun);
  runner.current = onRun;
  const { host, view } = useShadowView(identity, (parent, root) => {
    const state = EditorState.create({
      doc: text,
      extensions: [
        yamlView,
        lintGutter(),
        EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
        onRun ? keymap.of([{ key: "Mod-Enter", run: () => (runner.current?.(), true) }]) : [],
        reached ? reachedLines(reached) : [],
        line === undefined ? [] : linkedLine(line),
        onChange ? [assist ?? [], editing(onChange)] : [templateValue ? templateValues(templateValue) : still, failedLines(marks)],
      ],
    });
    return new EditorView({ state, parent, root });
  });
  useEffect(() => {
    const shown = view.current;
    if (!shown) return;
    shown.dispatch(setDiagnostics(shown.state, marks.map((mark) => diagnosticOf(shown.state.doc, mark, onChange !== undefined))));
    const first = marks[0];
    // A text that is being written stays where its writer is.
    const y = onChange === undefined ? "center" : "nearest";
    if (first && !shown.hasFocus) shown.dispatch({ effects: EditorView.scrollIntoView(lineOf(shown.state.doc, first).from, { y }) });
  }, [identity, marks, view, onChange === undefined]);
  useEffect(() => {
    const shown = view.current;
    if (shown && line !== undefined) shown.dispatch({ effects: EditorView.scrollIntoView(lineOf(shown.state.doc, { line }).from, { y: "center" }) });
  }, [identity, line, view]);
  useEffect(() => {
    if (!hands) return;
    hands.current = {
      fix: (mark) => view.current && applyFix(view.current, mark),
      goTo: (to) => {
        const shown = view.current;
        if (!shown) return;
        const { from } = lineOf(shown.state.doc, { line: to });
        shown.dispatch({ selection: { anchor: from }, effects: EditorView.scrollIntoView(from, { y: "center" }) });
        shown.focus();
      },
    };
    return () => {
      hands.current = null;
    };
  }, [hands, view]);
  return <div className="code-frame" ref={host} />;
}

function editing(onChange: (text: string) => void) {
  return [
    history(),
    highlightActiveLine(),
    fixKeys,
    // Escape, then Tab, leaves the editor by keyboard.
    keymap.of([...defaultKeymap, ...historyKeymap, indentWithTab]),
    EditorView.updateListener.of((update) => {
      if (update.docChanged) onChange(update.state.doc.toString());
    }),
  ];
}

/** The whole line of each error, so that it is seen before it is read. */
function failedLines(marks: Mark[]) {
  return EditorView.decorations.of((view) =>
    Decoration.set(
      marks.map((mark) => Decoration.line({ class: "cm-failed-line" }).range(lineOf(view.state.doc, mark).from)),
      true,
    ),
  );
}

function linkedLine(line: number) {
  return EditorView.decorations.of((view) => Decoration.set(Decoration.line({ class: "cm-linked-line" }).range(lineOf(view.state.doc, { line }).from)));
}

/** A mark at the beginning of each line with branches: taken, or not taken by any case. */
function reachedLines(reached: ReadonlyMap<number, boolean>) {
  return EditorView.decorations.of((view) =>
    Decoration.set(
      [...reached]
        .filter(([line]) => line >= 1 && line <= view.state.doc.lines)
        .sort(([a], [b]) => a - b)
        .map(([line, all]) => Decoration.line({ class: all ? "cm-reached-line" : "cm-missed-line" }).range(view.state.doc.line(line).from)),
    ),
  );
}
