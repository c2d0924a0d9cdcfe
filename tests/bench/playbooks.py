"""The benchmarks' playbooks. ``tick`` is dispatched to a worker and does nothing: only the engine is measured. The other kinds add one to a
value, each in its way, and hand it on."""

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {name}, path: bench/{name}}}\n"
STEP_URL = "http://127.0.0.1:1/"
CODE = "def main(value): return {'value': value + 1}"
"""What a step is in every system that is measured."""
TASKS = {
    "tick": "{{kind: tick}}",
    "python": """{{kind: python, args: {{value: "{value}"}}, code: "{code}"}}""",
    "python-own": """{{kind: python, process: execution, args: {{value: "{value}"}}, code: "{code}"}}""",
    "http": """{{kind: http, url: "{url}", params: {{value: "{value}"}}}}""",
    "postgres": """{{kind: postgres, query: "SELECT {value}::int + 1 AS value"}}""",
}
GIVEN = {
    "python": "{name}.value",
    "python-own": "{name}.value",
    "http": "{name}.data.value",
    "postgres": "{name}.rows[0].value",
}
"""Where a step of this kind has its value."""
KINDS = ("python", "python-own", "http", "postgres", "tick")


def task(kind: str, value: str, url: str = STEP_URL) -> str:
    """A task that adds one to ``value``, an expression of the playbook. A kind that is not listed gets no parameters."""
    return TASKS.get(kind, "{{kind: " + kind + "}}").format(value="{{ " + value + " }}", code=CODE, url=url)


def chain(steps: int, kind: str = "tick", url: str = STEP_URL) -> str:
    """``steps`` sequential dispatched steps; each works on what the one before it gave."""
    lines = [HEAD.format(name=f"chain_{steps}_{kind}"), "workload: {value: 0}\nworkflow:\n"]
    value = "workload.value"
    for number in range(steps):
        name = "start" if number == 0 else f"s{number}"
        lines.append(f"  - step: {name}\n    tool: {task(kind, value, url)}\n")
        value = GIVEN.get(kind, "{name}").format(name=name)
        if number + 1 < steps:
            lines.append(f"    next: s{number + 1}\n")
    return "".join(lines)


def loop(items: int, kind: str, mode: str, url: str = STEP_URL) -> str:
    """One loop, ``parallel`` or ``sequential``."""
    return (
        HEAD.format(name=f"{mode}_{items}_{kind}")
        + f"workload: {{items: {items}}}\nworkflow:\n"
        + f'  - step: start\n    loop: {{in: "{{{{ range(workload.items) | list }}}}", iterator: item, mode: {mode}}}\n'
        + f"    tool: {task(kind, 'item', url)}\n"
    )


def fan_out(items: int) -> str:
    """One parallel loop whose tasks do nothing but carry their item."""
    return (
        HEAD.format(name=f"fan_{items}")
        + f"workload: {{items: {items}}}\nworkflow:\n"
        + '  - step: start\n    loop: {in: "{{ range(workload.items) | list }}", iterator: item, mode: parallel}\n'
        + '    tool: {kind: tick, args: {value: "{{ item }}"}}\n'
    )


def routed(steps: int) -> str:
    """Engine alone: a ring of steps with a guarded arc, a payload and a workload read each."""
    lines = [HEAD.format(name="ring"), "workload: {n: 3}\nexecutor: {spec: {entry_step: s0}}\nworkflow:\n"]
    for number in range(steps):
        lines.append(
            f'  - step: s{number}\n    tool: {{kind: tick, args: {{n: "{{{{ workload.n }}}}"}}}}\n    next:\n      arcs:\n'
            f"        - {{step: s{(number + 1) % steps}, when: \"{{{{ event.name == 'step.done' }}}}\","
            f' args: {{n: "{{{{ workload.n }}}}"}}}}\n'
        )
    return "".join(lines)
