"""Settings of every session of the engine.

They are connection options, and are kept with the role that the functions sign in as.

A proxy drops connection options; what belongs to the role reaches the server all the same.
"""

from __future__ import annotations

from noetl.adapters.postgres import silence_watchdog

SETTINGS = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
    "statement_timeout": str(round(silence_watchdog.ANSWER_SECONDS * 950)),
}
"""Every statement looks rows up by key: the plan of the first call is right for all, also while the tables are still empty. One that
waits for a lock ends before the caller stops waiting for it.
"""
OPTIONS = " ".join(f"-c {name}={value}" for name, value in SETTINGS.items())
