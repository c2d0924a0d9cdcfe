/** Help while a playbook is written: completion, and what a key, a kind or a name is. */
import { acceptCompletion, autocompletion, closeBrackets, closeBracketsKeymap, closeCompletion } from "@codemirror/autocomplete";
import { EditorState, type Extension, Prec } from "@codemirror/state";
import { keymap } from "@codemirror/view";

import { pointed } from "../pointed";
import { complete, KEY, type Knowledge } from "./completion";
import { helpAt } from "./hover";

export type { Knowledge } from "./completion";

/** Braces are closed between quotes, too: templates stand there. */
const BRACKETS = { brackets: ["(", "[", "{", "'", '"'], before: ")]}:;>,'\"" };

export function assist(known: Knowledge): Extension {
  return [
    autocompletion({ override: [complete(known)], icons: false, maxRenderedOptions: 200, activateOnCompletion: ({ type }) => type === KEY }),
    Prec.highest(EditorState.languageData.of(() => [{ closeBrackets: BRACKETS }])),
    closeBrackets(),
    keymap.of(closeBracketsKeymap),
    keymap.of([{ key: "Tab", run: acceptCompletion }]),
    // A list that is open takes Escape for itself: a dialog around the editor stays.
    Prec.highest(keymap.of([{ key: "Escape", run: closeCompletion, stopPropagation: true }])),
    pointed(helpAt(known)),
  ];
}
