/** A playbook's text, to read or to edit, with marks of the server at their places. */
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { type Diagnostic, lintGutter, setDiagnostics } from "@codemirror/lint";
import { EditorState, type Text } from "@codemirror/state";
import { Decoration, EditorView, highlightActiveLine, keymap } from "@codemirror/view";
import { useEffect } from "react";

import { yamlView } from "./extensions";
import type { Mark } from "./marks";
import { useShadowView } from "./useShadowView";

interface CodeProps {
  label: string;
  /** Another identity is another text; what was typed is left behind. */
  identity: string;
  text: string;
  marks?: Mark[];
  onChange?: (text: string) => void;
}

const NO_MARKS: Mark[] = [];

export default function CodeView({ label, identity, text, marks = NO_MARKS, onChange }: CodeProps) {
  const { host, view } = useShadowView(identity, (parent, root) => {
    const state = EditorState.create({
      doc: text,
      extensions: [
        yamlView,
        lintGutter(),
        EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
        onChange ? editing(onChange) : [EditorState.readOnly.of(true), EditorView.editable.of(false), failedLines(marks)],
      ],
    });
    return new EditorView({ state, parent, root });
  });
  useEffect(() => {
    const shown = view.current;
    if (!shown) return;
    shown.dispatch(setDiagnostics(shown.state, marks.map((mark) => diagnosticOf(shown.state.doc, mark))));
    const first = marks[0];
    if (first) shown.dispatch({ effects: EditorView.scrollIntoView(lineOf(shown.state.doc, first).from, { y: "nearest" }) });
  }, [identity, marks, view]);
  return <div className="code-frame" ref={host} />;
}

function editing(onChange: (text: string) => void) {
  return [
    history(),
    highlightActiveLine(),
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

function lineOf(doc: Text, mark: Mark) {
  return doc.line(Math.min(Math.max(1, mark.line), doc.lines));
}

function diagnosticOf(doc: Text, mark: Mark): Diagnostic {
  const line = lineOf(doc, mark);
  const from = Math.min(line.to, line.from + Math.max(0, mark.column - 1));
  return { from, to: line.to, severity: mark.severity, message: mark.fix ? `${mark.message} (${mark.fix})` : mark.message };
}
