/** Marks of the server as CodeMirror's diagnostics, with the change that one suggests as an action. */
import { type Action, type Diagnostic, forEachDiagnostic, nextDiagnostic, previousDiagnostic } from "@codemirror/lint";
import type { Text } from "@codemirror/state";
import { type Command, type EditorView, keymap } from "@codemirror/view";

import { docsLine } from "./assist/help";
import { fixLabel, type Mark } from "./marks";

interface Marked extends Diagnostic {
  mark: Mark;
}

/** The page that explains each code. */
const PAGE = "diagnostics";

export function lineOf(doc: Text, { line }: { line: number }) {
  return doc.line(Math.min(Math.max(1, line), doc.lines));
}

/** `mayChange`: the text is being edited, so what is suggested can be done. */
export function diagnosticOf(doc: Text, mark: Mark, mayChange: boolean): Diagnostic {
  const line = lineOf(doc, mark);
  const from = Math.min(line.to, line.from + Math.max(0, mark.column - 1));
  const message = mark.fix ? `${mark.message} (${mark.fix})` : mark.message;
  const action = mayChange ? actionOf(doc, mark, from) : null;
  const end = mark.edit?.line === line.number ? line.from + mark.edit.end_column - 1 : line.to;
  const found: Marked = { from, to: Math.min(line.to, Math.max(from, end)), severity: mark.severity, message, mark, ...(action ? { actions: [action] } : {}) };
  if (mark.code) found.renderMessage = () => messageBox(message, mark.code ?? "");
  return found;
}

/** Do what a mark suggests, unless the text has changed there. */
export function applyFix(view: EditorView, mark: Mark): boolean {
  let done = false;
  forEachDiagnostic(view.state, (found, from, to) => {
    if (done || (found as Marked).mark !== mark) return;
    found.actions?.[0]?.apply(view, from, to);
    done = true;
  });
  return done;
}

/** Control and the full stop: do what the nearest diagnostic of the line suggests. */
const applyNearest: Command = (view) => {
  const { head } = view.state.selection.main;
  const line = view.state.doc.lineAt(head);
  const near: { apply: () => void; distance: number }[] = [];
  forEachDiagnostic(view.state, (found, from, to) => {
    const action = found.actions?.[0];
    if (action && from >= line.from && from <= line.to) {
      near.push({ apply: () => action.apply(view, from, to), distance: Math.abs(from - head) });
    }
  });
  near.sort((one, other) => one.distance - other.distance);
  near[0]?.apply();
  return near.length > 0;
};

/** F8 goes to the next diagnostic, Shift+F8 to the one before. */
export const fixKeys = keymap.of([
  { key: "Mod-.", run: applyNearest },
  { key: "F8", run: nextDiagnostic, shift: previousDiagnostic },
]);

function actionOf(doc: Text, mark: Mark, start: number): Action | null {
  const { edit } = mark;
  const name = fixLabel(mark);
  if (!edit || !name || edit.line < 1 || edit.line > doc.lines) return null;
  const line = doc.line(edit.line);
  const from = line.from + edit.column - 1;
  const to = line.from + edit.end_column - 1;
  if (from > to || to > line.to) return null;
  const before = doc.sliceString(from, to);
  return {
    name,
    apply: (view, at) => {
      // The diagnostic moves with the text around it.
      const [moved, end] = [from + at - start, to + at - start];
      if (view.state.doc.sliceString(moved, end) !== before) return;
      view.dispatch({
        changes: { from: moved, to: end, insert: edit.text },
        selection: { anchor: moved + edit.text.length },
        userEvent: "input.fix",
        scrollIntoView: true,
      });
      view.focus();
    },
  };
}

function messageBox(message: string, code: string): HTMLElement {
  const box = document.createElement("div");
  const text = document.createElement("div");
  text.textContent = message;
  box.append(text, docsLine(`${PAGE}#${code}`));
  return box;
}
