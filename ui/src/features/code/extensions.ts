/** What every CodeMirror view of YAML has: colours of the page's tokens, folding, search by the browser. */
import { defaultHighlightStyle, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { yaml } from "@codemirror/lang-yaml";
import { EditorView, highlightSpecialChars, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const theme = EditorView.theme({
  "&": { fontSize: "0.8125rem", backgroundColor: "var(--surface)", color: "var(--text)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
  ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--muted)", borderRight: "1px solid var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--hover)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "var(--accent-soft)",
  },
  ".cm-tooltip": { backgroundColor: "var(--surface)", color: "var(--text)", border: "1px solid var(--line)" },
  ".cm-value": {
    maxWidth: "36rem",
    maxHeight: "16rem",
    overflow: "auto",
    padding: "0.25rem 0.5rem",
    fontFamily: "var(--mono)",
    whiteSpace: "pre-wrap",
    overflowWrap: "anywhere",
  },
  ".cm-help": { maxWidth: "28rem", padding: "0.375rem 0.625rem", fontSize: "0.8125rem", overflowWrap: "anywhere" },
  ".cm-help p": { margin: "0.25rem 0 0" },
  ".cm-help-docs": { margin: "0.25rem 0 0", color: "var(--muted)" },
  ".cm-help-docs code": { fontFamily: "var(--mono)", fontSize: "0.75rem" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "16rem" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "0.125rem 0.5rem", color: "var(--text)" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionDetail": { color: "var(--muted)", fontStyle: "normal" },
  "li[aria-selected] .cm-completionDetail": { color: "inherit" },
  ".cm-tooltip.cm-completionInfo": { backgroundColor: "var(--surface)", color: "var(--text)", padding: "0" },
  // There is no room beside the list on a telephone.
  "@media (max-width: 40rem)": { ".cm-tooltip.cm-completionInfo": { display: "none" } },
  ".cm-diagnosticAction": {
    backgroundColor: "var(--accent)",
    color: "var(--on-accent)",
    borderRadius: "4px",
    margin: "0.25rem 0 0",
    padding: "0.125rem 0.5rem",
    fontFamily: "inherit",
  },
  ".cm-diagnostic-error": { borderLeftColor: "var(--bad)" },
  ".cm-failed-line": { backgroundColor: "var(--bad-soft)" },
  ".cm-linked-line": { backgroundColor: "var(--accent-soft)" },
  ".cm-reached-line": { boxShadow: "inset 3px 0 var(--good)" },
  ".cm-missed-line": { boxShadow: "inset 3px 0 var(--warn)", backgroundColor: "var(--warn-soft)" },
  ".cm-changedLine, .cm-insertedLine": { backgroundColor: "var(--good-soft)" },
  ".cm-deletedChunk": { backgroundColor: "var(--bad-soft)" },
  ".cm-deletedChunk span": { color: "var(--text)" },
  ".cm-collapsedLines": { background: "var(--sunken)", color: "var(--muted)" },
  // The sign of the library is missing in many fonts.
  ".cm-collapsedLines::before, .cm-collapsedLines::after": { content: '"⋯"' },
  ".cm-changedText, .cm-deletedText": { background: "none", textDecoration: "underline" },
});

const highlight = HighlightStyle.define([
  { tag: [tags.definition(tags.propertyName), tags.propertyName], color: "var(--accent)" },
  { tag: [tags.string, tags.content], color: "var(--text)" },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword], color: "var(--held)" },
  { tag: tags.comment, color: "var(--muted)", fontStyle: "italic" },
]);

export const yamlView = [
  lineNumbers(),
  highlightSpecialChars(),
  yaml(),
  syntaxHighlighting(highlight),
  syntaxHighlighting(defaultHighlightStyle, { fallback: true }),
  EditorView.lineWrapping,
  theme,
];
