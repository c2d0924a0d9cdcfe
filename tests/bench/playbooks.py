"""The benchmarks' playbooks: steps that do nothing, so that only the engine is measured. ``tick`` is dispatched to a worker like any tool."""

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {name}, path: bench/{name}}}\n"


def chain(steps: int, kind: str = "tick") -> str:
    """W1 and W3: ``steps`` sequential dispatched steps."""
    lines = [HEAD.format(name=f"chain_{steps}"), "workflow:\n"]
    for number in range(steps):
        name = "start" if number == 0 else f"s{number}"
        lines.append(f"  - step: {name}\n    tool: {{kind: {kind}}}\n")
        if number + 1 < steps:
            lines.append(f"    next: s{number + 1}\n")
    return "".join(lines)


def fan_out(items: int) -> str:
    """W2: one parallel loop."""
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
