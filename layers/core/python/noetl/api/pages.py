"""Pages for people who answer a callback: the question, and the outcome.

Plain HTML without scripts; everything is escaped.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape

from noetl.api.http.exchange import Answer
from noetl.domain.wait_request import iso
from noetl.services.callbacks.complete_callback import CallbackQuestion

HTML = "text/html; charset=utf-8"
_STYLE = (
    "body{font:1rem/1.5 system-ui,sans-serif;max-width:40rem;margin:3rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}"
    "h1{font-size:1.4rem}p.about{white-space:pre-wrap;overflow-wrap:anywhere}dl{display:grid;grid-template-columns:auto 1fr;gap:.25rem 1rem}"
    "dt{font-weight:600}dd{margin:0;overflow-wrap:anywhere}textarea{display:block;width:100%}"
    "textarea{box-sizing:border-box;font:inherit;margin:.25rem 0 1rem}"
    "button{font:inherit;padding:.6rem 1.4rem;margin-right:1rem;border:2px solid #1a1a1a;border-radius:.4rem;background:#fff;color:#1a1a1a}"
    "button.yes{background:#1a1a1a;color:#fff}button:focus-visible,textarea:focus-visible{outline:3px solid #0b57d0;outline-offset:2px}"
)
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex",
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_HASH}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
}
COMMENT = 4000
"""Characters of a comment."""


def ask(question: CallbackQuestion) -> Answer:
    """Approve or reject, with a comment. The form goes to the page's own address."""
    rows = [("Step", question.step), ("Task", question.task), ("Execution", question.execution_id)]
    if question.since is not None:
        rows.append(("Waits since", iso(question.since)))
    if question.until is not None:
        rows.append(("Until", iso(question.until)))
    about = f'<p class="about">{escape(question.message)}</p>' if question.message else ""
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in rows if value)
    form = (
        '<form method="post" accept-charset="utf-8"><label for="comment">Comment (optional)</label>'
        f'<textarea id="comment" name="comment" rows="4" maxlength="{COMMENT}"></textarea>'
        '<button class="yes" type="submit" name="decision" value="approve">Approve</button>'
        '<button type="submit" name="decision" value="reject">Reject</button></form>'
    )
    return page(200, "A decision is needed", f"{about}<dl>{listed}</dl>{form}")


def message_page(status: int, title: str, text: str) -> Answer:
    """Something to read, and nothing to do."""
    return page(status, title, f'<p class="about" role="status">{escape(text)}</p>')


def page(status: int, title: str, content: str) -> Answer:
    """``content``: HTML, escaped already."""
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><main><h1>{escape(title)}</h1>{content}</main></body></html>"
    )
    return Answer(status, text=text, headers=_HEADERS, content_type=HTML)
